"""The mount options of GCS FUSE: which there are, and what they may hold.

The table is that of gcsfuse 3 (cfg/params.yaml in github.com/GoogleCloudPlatform/gcsfuse), without what is hidden,
experimental or unused. How a volume's text is split into flags and lines of the configuration file is GKE's driver's
(pkg/sidecar_mounter/sidecar_mounter_config.go in github.com/GoogleCloudPlatform/gcs-fuse-csi-driver).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Path in the configuration file, flag on the command line, type.
TABLE = """
app-name                                        app-name                               string
file-cache:cache-file-for-range-read            file-cache-cache-file-for-range-read   bool
file-cache:download-chunk-size-mb               file-cache-download-chunk-size-mb      int
file-cache:enable-parallel-downloads            file-cache-enable-parallel-downloads   bool
file-cache:exclude-regex                        file-cache-exclude-regex               string
file-cache:include-regex                        file-cache-include-regex               string
file-cache:max-parallel-downloads               file-cache-max-parallel-downloads      int
file-cache:max-size-mb                          file-cache-max-size-mb                 limit
file-cache:parallel-downloads-per-file          file-cache-parallel-downloads-per-file int
file-system:dir-mode                            dir-mode                               octal
file-system:disable-parallel-dirops             disable-parallel-dirops                bool
file-system:file-mode                           file-mode                              octal
file-system:gid                                 gid                                    int
file-system:ignore-interrupts                   ignore-interrupts                      bool
file-system:kernel-list-cache-ttl-secs          kernel-list-cache-ttl-secs             limit
file-system:max-read-ahead-kb                   max-read-ahead-kb                      int
file-system:precondition-errors                 precondition-errors                    bool
file-system:rename-dir-limit                    rename-dir-limit                       int
file-system:uid                                 uid                                    int
gcs-connection:billing-project                  billing-project                        string
gcs-connection:client-protocol                  client-protocol                        http1|http2|grpc
gcs-connection:custom-endpoint                  custom-endpoint                        string
gcs-connection:http-client-timeout              http-client-timeout                    duration
gcs-connection:limit-bytes-per-sec              limit-bytes-per-sec                    float
gcs-connection:limit-ops-per-sec                limit-ops-per-sec                      float
gcs-connection:max-conns-per-host               max-conns-per-host                     int
gcs-connection:max-idle-conns-per-host          max-idle-conns-per-host                int
gcs-connection:sequential-read-size-mb          sequential-read-size-mb                int
gcs-retries:chunk-transfer-timeout-secs         chunk-transfer-timeout-secs            int
gcs-retries:max-retry-attempts                  max-retry-attempts                     int
gcs-retries:max-retry-sleep                     max-retry-sleep                        duration
gcs-retries:multiplier                          retry-multiplier                       float
gcs-retries:read-stall:enable                   enable-read-stall-retry                bool
implicit-dirs                                   implicit-dirs                          bool
list:enable-empty-managed-folders               enable-empty-managed-folders           bool
logging:severity                                log-severity      trace|debug|info|warning|error|off
metadata-cache:enable-nonexistent-type-cache    enable-nonexistent-type-cache          bool
metadata-cache:negative-ttl-secs                metadata-cache-negative-ttl-secs       limit
metadata-cache:stat-cache-max-size-mb           stat-cache-max-size-mb                 limit
metadata-cache:ttl-secs                         metadata-cache-ttl-secs                limit
metadata-cache:type-cache-max-size-mb           type-cache-max-size-mb                 limit
metrics:cloud-metrics-export-interval-secs      cloud-metrics-export-interval-secs     int
only-dir                                        only-dir                               string
profile                                         profile           aiml-training|aiml-serving|aiml-checkpointing
read:enable-buffered-read                       enable-buffered-read                   bool
read:global-max-blocks                          read-global-max-blocks                 limit
write:block-size-mb                             write-block-size-mb                    int
write:enable-rapid-appends                      enable-rapid-appends                   bool
write:enable-streaming-writes                   enable-streaming-writes                bool
write:global-max-blocks                         write-global-max-blocks                limit
write:max-blocks-per-file                       write-max-blocks-per-file              limit
"""
# GKE's driver sets these itself and throws away what a volume says.
DISALLOWED = frozenset(
    [
        *("temp-dir", "config-file", "foreground", "log-file", "log-format", "key-file", "token-url", "o", "cache-dir"),
        *("reuse-token-from-url", "experimental-local-file-cache", "prometheus-port"),
        *(f"logging:log-rotate:{key}" for key in ("max-file-size-mb", "backup-file-count", "compress")),
    ]
)
# Options of mount(8) that the driver gives to the kernel.
KERNEL = {"ro": True, "rw": False}


class OptionError(ValueError):
    """The message that gcsfuse gives for the option."""


@dataclass(frozen=True)
class MountOptions:
    """Those options that mean something for a folder of this machine; the others are checked and no more.

    uid, gid: owner of all that is in the mount, root where none is named, as GKE's driver does.
    dir_mode, file_mode: permission bits.
    rename_dir_limit: folders with more below them cannot be renamed in a flat bucket.
    """

    uid: int
    gid: int
    dir_mode: int
    file_mode: int
    rename_dir_limit: int
    only_dir: str
    read_only: bool


def parse(text: str) -> MountOptions:
    """The options of a volume's attribute mountOptions, such as `implicit-dirs,uid=1000,metadata-cache:ttl-secs:60`.

    Raises OptionError for an option that gcsfuse does not have or that GKE's driver ignores, and for a wrong value.
    """
    found: dict[str, str] = {}
    read_only = False
    for option in filter(None, (part.strip() for part in text.split(","))):
        if option in KERNEL:
            read_only = KERNEL[option]
            continue
        path, value = _in_file(option) if ":" in option and "https" not in option else _on_command_line(option)
        found[path] = value
    return MountOptions(
        uid=max(int(found.get("file-system:uid", 0)), 0),
        gid=max(int(found.get("file-system:gid", 0)), 0),
        dir_mode=int(found.get("file-system:dir-mode", "755"), 8),
        file_mode=int(found.get("file-system:file-mode", "644"), 8),
        rename_dir_limit=int(found.get("file-system:rename-dir-limit", 0)),
        only_dir=found.get("only-dir", ""),
        read_only=read_only,
    )


def _in_file(option: str) -> tuple[str, str]:
    """`section:key:value`: a line of the configuration file."""
    path, _, value = option.rpartition(":")
    _refuse_disallowed(path, option)
    if path not in TYPES:
        section, _, key = path.rpartition(":")
        raise OptionError(
            "Error: while parsing the config: decoding failed due to the following error(s): "
            f"'{section.replace(':', '.')}' has invalid keys: {key}"
        )
    _check(TYPES[path], value, f"'{path.replace(':', '.')}'")
    return path, value


def _on_command_line(option: str) -> tuple[str, str]:
    """`flag=value`, or a bare flag that is true."""
    flag, equals, value = option.partition("=")
    _refuse_disallowed(flag, option)
    if flag not in FLAGS:
        raise OptionError(f"Error: unknown flag: --{flag}")
    path = FLAGS[flag]
    if not equals:
        if TYPES[path] != "bool":
            raise OptionError(f"Error: flag needs an argument: --{flag}")
        value = "true"
    _check(TYPES[path], value, f'"--{flag}" flag')
    return path, value


def _refuse_disallowed(name: str, option: str) -> None:
    if name in DISALLOWED:
        raise OptionError(f"got invalid arguments: [{option}]: GKE's driver sets {name} itself and discards this")


def _check(kind: str, value: str, name: str) -> None:
    if kind in CHECKS:
        valid, rule = CHECKS[kind](value), kind
    else:
        valid, rule = value in kind.split("|"), f"one of {kind.replace('|', ', ')}"
    if not valid:
        expected = {"limit": "a whole number of at least -1", "octal": "octal permission bits"}.get(rule, rule)
        raise OptionError(f'Error: invalid argument "{value}" for {name}: expected {expected}')


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "string": lambda text: bool(text),
    "bool": lambda text: text.lower() in ("true", "t", "1", "false", "f", "0"),
    "int": lambda text: re.fullmatch(r"-?\d+", text) is not None,
    "limit": lambda text: re.fullmatch(r"-1|\d+", text) is not None,
    "octal": lambda text: re.fullmatch(r"0?[0-7]{3}", text) is not None,
    "float": _is_float,
    "duration": lambda text: re.fullmatch(r"(\d+(\.\d+)?(ns|us|ms|s|m|h))+|0", text) is not None,
}
TYPES = {line.split()[0]: line.split()[2] for line in TABLE.strip().splitlines()}
FLAGS = {line.split()[1]: line.split()[0] for line in TABLE.strip().splitlines()}
