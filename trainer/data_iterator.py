"""Makes MaxText's Grain pipeline keep its place when the number of hosts changes, and say what is wrong with data.

`install()` replaces a few names in MaxText's modules, each for the reason given where it is done. It is called in the
training process after `import maxtext` and before MaxText's main. Tested with the versions in TESTED;
tests/local/test_data_resume.py shows what it is for.
"""

import contextlib
import importlib.metadata
from collections.abc import Callable, Iterator
from typing import Any

import data_arguments

TESTED = {"maxtext": "0.2.5", "grain": "0.2.18"}


def install() -> None:
    """Mends the input pipeline of the MaxText that is installed here. Calling it again changes nothing.

    Raises RuntimeError, with the versions found and tested, where this MaxText or Grain has other insides.
    """
    from maxtext.common import data_loader
    from maxtext.input_pipeline import grain_data_processing, input_pipeline_interface, multihost_dataloading

    if getattr(input_pipeline_interface.make_grain_train_iterator, "_keeps_place", False):
        return
    _replace(grain_data_processing, "ElasticIterator", _resizable_iterator)
    _replace(grain_data_processing, "find_data_files", _sorted_files)
    _replace(input_pipeline_interface, "make_grain_train_iterator", _checked_training_data)
    _replace(input_pipeline_interface, "make_grain_eval_iterator", _evaluation_data)
    _replace(input_pipeline_interface, "make_hf_eval_iterator", _repeatable_evaluation_data)
    _replace(data_loader, "loader_exception_guard", _errors_stay_errors)
    _replace(multihost_dataloading, "_cleanup_orphaned_multiprocessing_processes", _no_cleanup)


def _replace(module: Any, name: str, mend: Callable[[Any], Any]) -> None:
    original = getattr(module, name, None)
    if original is None:
        raise RuntimeError(f"{module.__name__} has no {name}: {_versions()}")
    setattr(module, name, mend(original))


def _versions() -> str:
    found = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in TESTED)
    tested = ", ".join(f"{name} {version}" for name, version in TESTED.items())
    return (
        f"real data was made to work with {tested}, and here is {found}. Fix: use an image (or runtime packages) "
        "with those versions, or data.kind: synthetic."
    )


def _resizable_iterator(elastic_iterator: type) -> type:
    """An iterator whose place is one number, how many examples of the global order have been read, for all hosts.

    MaxText knows it by its class when it saves and restores. But Grain 0.2.18 answers iter() with an object of a
    private class, which MaxText 0.2.5 takes for an ordinary iterator: it then writes one file per host, and refuses
    them on another number of hosts. So iter() answers with the iterator itself, which has all that is needed.
    """
    missing = [name for name in ("__next__", "get_state", "set_state", "close") if not hasattr(elastic_iterator, name)]
    if missing:
        raise RuntimeError(f"grain's ElasticIterator has no {', '.join(missing)}: {_versions()}")

    class ResizableIterator(elastic_iterator):
        _parent = None  # MaxText asks when it closes, and Grain's own answer is an AssertionError

        def __init__(self, dataset: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(dataset, *arguments, **options)
            self.has_child = True  # or Grain might wrap what iter() gives in a prefetching iterator
            self.examples = len(dataset)

        def __iter__(self) -> Any:
            return self

    return ResizableIterator


def _sorted_files(find_data_files: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """The order of the files is part of the order of the examples, and glob's order is that of each host's mount."""

    def find(*arguments: Any, **options: Any) -> list[str]:
        return sorted(find_data_files(*arguments, **options))

    return find


def _checked_training_data(make: Callable[..., Any]) -> Callable[..., Any]:
    """Training data, refused at the start if it does not fit the model or ends before the run does."""

    def make_checked(config: Any, mesh: Any, processes: list[int]) -> Any:
        data_arguments.check_manifest(
            config.grain_train_files, config.max_target_length, config.vocab_size, not config.tokenize_train_data
        )
        iterator = make(config, mesh, processes)
        examples = getattr(getattr(iterator, "dataloader", None), "examples", None)
        if examples is not None:
            _check_enough(examples, config)
        return iterator

    make_checked._keeps_place = True  # type: ignore[attr-defined]
    return make_checked


def _check_enough(examples: int, config: Any) -> None:
    """examples: how many sequences there are, all passes (data.epochs) together."""
    needed = config.steps * config.global_batch_size_to_load
    one_pass = examples // config.num_epoch
    if examples < needed:
        raise ValueError(
            f"{config.grain_train_files}: {one_pass} sequences, read {config.num_epoch} times (data.epochs), end "
            f"before the run does: {config.steps} steps (job.steps) of {config.global_batch_size_to_load} sequences "
            f"read {needed}. Fix: data.epochs: 0 (as many passes as needed), or job.steps: "
            f"{examples // config.global_batch_size_to_load}."
        )
    from maxtext.utils import max_logging

    max_logging.log(f"Training data: {one_pass} sequences, of which this run reads {needed / one_pass:.3g} passes")


def _evaluation_data(make: Callable[..., Any]) -> Callable[..., Any]:
    """Evaluation starts from the first example each time: without a place to keep, it takes the ordinary iterator."""

    def make_for_evaluation(config: Any, mesh: Any, processes: list[int]) -> Any:
        return make(_EvaluationConfig(config), mesh, processes)

    return make_for_evaluation


class _EvaluationConfig:
    """MaxText's configuration as it is, but for two answers that MaxText 0.2.5 takes from training by mistake.

    With grain_use_elastic_iterator it leaves batching to the elastic iterator, which evaluation does not get: the model
    would be given single examples. And it reads batches of the training's size, gradient accumulation included, of
    which the evaluation step drops all but one evaluation batch: half of the held-out data would be skipped.
    """

    grain_use_elastic_iterator = False

    def __init__(self, config: Any) -> None:
        self._config = config

    @property
    def global_batch_size_to_load(self) -> int:
        return int(self._config.global_batch_size_to_load_eval)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


def _repeatable_evaluation_data(make: Callable[..., Any]) -> Callable[..., Any]:
    """MaxText's hf pipeline reads on where the last evaluation ended, and fails at the end of the data."""

    def make_repeatable(*arguments: Any) -> Any:
        return _AnewForEachEvaluation(lambda: make(*arguments))

    return make_repeatable


class _AnewForEachEvaluation:
    """Batches of an iterator that is made anew by reset(), which MaxText calls before each evaluation."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._iterator = make()

    def reset(self) -> None:
        self._iterator = self._make()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)


def _errors_stay_errors(_guard: Callable[..., Any]) -> Callable[..., Any]:
    """MaxText turns every error of the data into a request to stop, and main() then returns as if all were well."""

    @contextlib.contextmanager
    def guard(_config: Any) -> Iterator[None]:
        try:
            yield
        except StopIteration:
            raise RuntimeError(
                "The training data ended before the last step. Fix: data.epochs: 0 (kind hf: a number), or fewer steps."
            ) from None  # contextlib would take one raised "from" a StopIteration for the StopIteration itself

    return guard


def _no_cleanup(_cleanup: Callable[..., Any]) -> Callable[..., Any]:
    """MaxText ends every orphaned multiprocessing process that it can see, whoever started it.

    On a laptop those are other people's. A pod's are gone when its training process is: Ray kills what it leaves.
    """
    return lambda: None
