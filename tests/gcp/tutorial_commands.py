"""The upstream tutorial's commands for what bootstrap makes, as they stand there, and what ours do otherwise and why.

The tutorial: Train with Ray Train, MaxText and multislice TPUs on GKE (docs.cloud.google.com/kubernetes-engine).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

VARIABLES = {
    "PROJECT_ID": "demo-project",
    "PROJECT_NUMBER": "123456789012",
    "GS_BUCKET": "demo-checkpoints",
    "KSA_NAME": "maxtext",
    "NAMESPACE": "default",
    "CLUSTER_NAME": "multislice",
    "REGION": "us-east5",
    "ZONE": "us-east5-b",
    "CLUSTER_VERSION": "1.35.2-gke.1842000",
}


@dataclass(frozen=True)
class TutorialCommand:
    """One command. line: as in the tutorial.

    ours: how ours begins, where that is not how the tutorial's begins; empty where we have none.
    otherwise: flags that ours has with another value, or not at all (None).
    reason: what the script's comments say where ours is not the same.
    mode: the kind of cluster that it is for; empty for both.
    """

    line: str
    ours: tuple[str, ...] | None = None
    otherwise: Mapping[str, str | None] = field(default_factory=dict)
    reason: str = ""
    mode: str = ""

    @property
    def words(self) -> list[str]:
        text = self.line
        for name in sorted(VARIABLES, key=len, reverse=True):
            text = text.replace(f"${{{name}}}", VARIABLES[name]).replace(f"${name}", VARIABLES[name])
        return shlex.split(text)

    @property
    def start(self) -> tuple[str, ...]:
        """How our command begins: program, command and name."""
        return verb(self.words) if self.ours is None else self.ours

    @property
    def wanted(self) -> dict[str, str]:
        """The flags that ours must have."""
        theirs = {name: value for name, value in flags(self.words).items() if name.startswith("-")}
        ours = {name: value for name, value in self.otherwise.items() if value is not None}
        return {name: value for name, value in theirs.items() if name not in self.otherwise} | ours


def verb(words: list[str]) -> tuple[str, ...]:
    """The words before the first option."""
    first = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    return tuple(words[:first])


def flags(words: list[str]) -> dict[str, str]:
    """Options with their values, be they written --a=b or --a b. Those of options that repeat are joined."""
    found: dict[str, str] = {}
    rest = words[len(verb(words)) :]
    while rest:
        name, has_value, value = rest.pop(0).partition("=")
        if not has_value and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        found[name] = f"{found[name]} {value}" if name in found else value
    return found


_NAMES = "Names carry the cluster's name"


def _network(number: int) -> TutorialCommand:
    return TutorialCommand(
        f"gcloud compute networks create ${{CLUSTER_NAME}}-net-{number} --subnet-mode=custom --mtu=8896",
        mode="standard",
    )


def _subnet(number: int, addresses: str) -> TutorialCommand:
    return TutorialCommand(
        f"gcloud compute networks subnets create tpu-subnet-{number} --network=${{CLUSTER_NAME}}-net-{number} "
        f"--region=${{REGION}} --range={addresses}",
        ours=("gcloud", "compute", "networks", "subnets", "create", f"multislice-tpu-subnet-{number}"),
        reason=_NAMES,
        mode="standard",
    )


def _not_with_autopilot(command: TutorialCommand) -> TutorialCommand:
    return replace(
        command, ours=(), reason="GKE makes the networks between the slices of an Autopilot cluster", mode="autopilot"
    )


def _node_pool(index: int) -> TutorialCommand:
    return TutorialCommand(
        f"gcloud container node-pools create v6e-16-{index} --location=$ZONE --cluster=$CLUSTER_NAME "
        "--machine-type=ct6e-standard-4t --threads-per-core=1 --tpu-topology=4x4 --num-nodes=4 "
        "--additional-node-network=network=${CLUSTER_NAME}-net-1,subnetwork=tpu-subnet-1 "
        "--additional-node-network=network=${CLUSTER_NAME}-net-2,subnetwork=tpu-subnet-2 "
        "--node-labels=cloud.google.com/gke-networking-dra-driver=true --enable-gvnic "
        "--scopes=https://www.googleapis.com/auth/cloud-platform",
        otherwise={
            "--additional-node-network": "network=multislice-net-1,subnetwork=multislice-tpu-subnet-1 "
            "network=multislice-net-2,subnetwork=multislice-tpu-subnet-2"
        },
        reason=_NAMES,
        mode="standard",
    )


_NETWORKS = (_network(1), _network(2), _subnet(1, "10.50.0.0/16"), _subnet(2, "10.60.0.0/16"))

COMMANDS = (
    TutorialCommand(
        "gcloud projects add-iam-policy-binding ${PROJECT_ID} --member=user:me@example.com --role=ROLE",
        ours=(),
        reason="It grants no roles to people",
    ),
    *_NETWORKS,
    *map(_not_with_autopilot, _NETWORKS),
    TutorialCommand(
        "gcloud container clusters create-auto $CLUSTER_NAME --enable-ray-operator --machine-type=n1-standard-16 "
        "--location=$REGION --cluster-version=${CLUSTER_VERSION}",
        otherwise={"--machine-type": None},
        reason="Without the tutorial's --machine-type",
        mode="autopilot",
    ),
    TutorialCommand("gcloud container clusters get-credentials $CLUSTER_NAME --location=$REGION", mode="autopilot"),
    TutorialCommand(
        "gcloud container clusters create $CLUSTER_NAME --addons=RayOperator,GcsFuseCsiDriver "
        "--machine-type=n1-standard-16 --enable-dataplane-v2 --workload-pool=$PROJECT_ID.svc.id.goog "
        "--location=$ZONE --cluster-version=${CLUSTER_VERSION}",
        mode="standard",
    ),
    TutorialCommand("gcloud container clusters get-credentials $CLUSTER_NAME --location=$ZONE", mode="standard"),
    _node_pool(0),
    _node_pool(1),
    TutorialCommand(
        "gsutil mb -p ${PROJECT_ID} -c STANDARD -l ${REGION} gs://${GS_BUCKET}",
        ours=("gcloud", "storage", "buckets", "create", "gs://demo-checkpoints"),
        otherwise={
            "-p": None, "--project": "demo-project",
            "-c": None, "--default-storage-class": "STANDARD",
            "-l": None, "--location": "us-east5",
            # gsutil has it after the options, and ours before them.
            "gs://demo-checkpoints": None,
        },
        reason="gsutil mb",
    ),
    TutorialCommand(
        "kubectl create serviceaccount ${KSA_NAME} --namespace ${NAMESPACE}",
        ours=(),
        reason="The Kubernetes service account comes with the chart",
    ),
    TutorialCommand(
        "gcloud storage buckets add-iam-policy-binding gs://${GS_BUCKET} --member "
        "principal://iam.googleapis.com/projects/${PROJECT_NUMBER}/locations/global/workloadIdentityPools/"
        "${PROJECT_ID}.svc.id.goog/subject/ns/${NAMESPACE}/sa/${KSA_NAME} --role roles/storage.objectUser"
    ),
)  # fmt: skip
