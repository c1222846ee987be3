"""The custom resources that GKE brings and the chart makes, as structural schemas: a key that they do not name is lost.

Sources: https://cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass, manifests/setup.yaml in
github.com/GoogleCloudPlatform/prometheus-engine, and the API reference of the Prometheus operator. Fields that no chart
for TPUs can use are left out: then an object that names them is refused where fields are validated strictly.
"""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}


def _object(*required: str, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


NUMBER_OR_TEXT: Schema = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
ENABLED = _object("enabled", enabled=BOOLEAN)
NAME = _object("name", name=STRING)

_LOCATION = _object(zones=_list(STRING), locationPolicy=_one_of("ANY", "BALANCED"))
_NODE_SYSTEM = _object(
    linuxNodeConfig=_object(sysctls=_map(NUMBER_OR_TEXT)),
    kubeletConfig=_object(cpuCfsQuota=BOOLEAN, cpuManagerPolicy=STRING, podPidsLimit=INTEGER),
)
_RESERVATION = _object(
    "name",
    name=STRING,
    project=STRING,
    reservationBlock=_object("name", name=STRING, reservationSubBlock=NAME),
    zones=_list(STRING),
)
_PRIORITY = _object(
    acceleratorNetworkProfile=STRING,
    capacityCheckWaitTimeSeconds=INTEGER,
    flexStart=_object(enabled=BOOLEAN, nodeRecycling=_object(leadTimeSeconds=INTEGER)),
    location=_LOCATION,
    machineFamily=STRING,
    machineType=STRING,
    maxPodsPerNode=INTEGER,
    maxRunDurationSeconds=INTEGER,
    minCores=INTEGER,
    minMemoryGb=INTEGER,
    nodeSystemConfig=_NODE_SYSTEM,
    nodepools=_list(STRING),
    placement=_object(policyName=STRING),
    podFamily=STRING,
    priorityScore=INTEGER,
    reservations=_object(
        "affinity", affinity=_one_of("Specific", "AnyBestEffort", "None"), specific=_list(_RESERVATION)
    ),
    spot=BOOLEAN,
    storage=_object(bootDiskKMSKey=STRING, bootDiskSize=INTEGER, bootDiskType=STRING, localSSDCount=INTEGER),
    tpu=_object("type", "count", "topology", type=STRING, count=INTEGER, topology=STRING),
)
_COMPUTE_CLASS = _object(
    "priorities",
    activeMigration=_object(optimizeRulePriority=BOOLEAN, ensureAllDaemonSetPodsRunning=BOOLEAN),
    autopilot=ENABLED,
    autoscalingPolicy=_object(
        consolidationDelayMinutes=INTEGER, consolidationThreshold=INTEGER, gpuConsolidationThreshold=INTEGER
    ),
    description=STRING,
    nodePoolAutoCreation=ENABLED,
    nodePoolConfig=_object(
        autoRepair=BOOLEAN,
        autoUpgrade=BOOLEAN,
        dra=_object(networking=ENABLED),
        imageStreaming=ENABLED,
        imageType=STRING,
        ipType=STRING,
        nodeLabels=_map(STRING),
        serviceAccount=STRING,
        taints=_list(_object("key", "effect", key=STRING, value=STRING, effect=STRING)),
        workloadType=STRING,
    ),
    nodePoolGroup=NAME,
    priorities=_list(_PRIORITY),
    priorityDefaults=_object(location=_LOCATION, nodeSystemConfig=_NODE_SYSTEM),
    whenUnsatisfiable=_one_of("ScaleUpAnyway", "DoNotScaleUp"),
)

_SELECTOR = _object(
    matchLabels=_map(STRING),
    matchExpressions=_list(_object("key", "operator", key=STRING, operator=STRING, values=_list(STRING))),
)
_RELABELING = _object(
    action=STRING,
    modulus=INTEGER,
    regex=STRING,
    replacement=STRING,
    separator=STRING,
    sourceLabels=_list(STRING),
    targetLabel=STRING,
)
_POD_MONITORING = _object(
    "endpoints",
    "selector",
    endpoints=_list(
        _object(
            "port",
            interval=STRING,
            metricRelabeling=_list(_RELABELING),
            params=_map(_list(STRING)),
            path=STRING,
            port=NUMBER_OR_TEXT,
            scheme=STRING,
            timeout=STRING,
        )
    ),
    filterRunning=BOOLEAN,
    limits=_object(labelNameLength=INTEGER, labelValueLength=INTEGER, labels=INTEGER, samples=INTEGER),
    selector=_SELECTOR,
    targetLabels=_object(
        fromPod=_list(_object("from", **{"from": STRING, "to": STRING})),
        metadata=_list(_one_of("pod", "container", "node", "top_level_controller_name", "top_level_controller_type")),
    ),
)
_POD_MONITOR = _object(
    "selector",
    jobLabel=STRING,
    namespaceSelector=_object(any=BOOLEAN, matchNames=_list(STRING)),
    podMetricsEndpoints=_list(
        _object(
            honorLabels=BOOLEAN,
            interval=STRING,
            metricRelabelings=_list(_RELABELING),
            path=STRING,
            port=STRING,
            portNumber=INTEGER,
            relabelings=_list(_RELABELING),
            scheme=STRING,
            scrapeTimeout=STRING,
        )
    ),
    podTargetLabels=_list(STRING),
    sampleLimit=INTEGER,
    selector=_SELECTOR,
)


def crds() -> list[dict[str, Any]]:
    """ComputeClass, PodMonitoring and PodMonitor as CustomResourceDefinitions."""
    return [
        _definition("cloud.google.com", "ComputeClass", "computeclasses", "Cluster", _COMPUTE_CLASS),
        _definition("monitoring.googleapis.com", "PodMonitoring", "podmonitorings", "Namespaced", _POD_MONITORING),
        _definition("monitoring.coreos.com", "PodMonitor", "podmonitors", "Namespaced", _POD_MONITOR),
    ]


def _definition(group: str, kind: str, plural: str, scope: str, spec: Schema) -> dict[str, Any]:
    condition = _object("type", "status", type=STRING, status=STRING, reason=STRING, message=STRING)
    status = _object(conditions=_list(condition))
    metadata: Schema = {"type": "object"}
    schema = _object("spec", apiVersion=STRING, kind=STRING, metadata=metadata, spec=spec, status=status)
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "preserveUnknownFields": False,
            "versions": [version],
        },
    }
