"""Plays GKE's GCS FUSE CSI driver on one node, for ephemeral inline volumes: a bucket is a folder of this machine.

A bucket with a hierarchical namespace is bind-mounted. A flat one is served by flat_bucket.py, because there a folder
cannot be renamed and a bind mount cannot refuse that. Beside a bucket's folder stands what Google Cloud would know of
it, BUCKET.iam.json:

    {"members": ["NAMESPACE/SERVICEACCOUNT"], "hierarchicalNamespace": true}

Limits: a bind mount shows the owners and modes of the files themselves, so uid, gid and dir-mode are put on the
bucket's own folder, and file-mode has no effect there: what a test puts into a bucket must belong to who writes it.
Caches and implicit-dirs have none at all: a folder of this machine is always what it is. The sidecar container is not
put into pods; its annotation is asked for.
"""

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from tests.gke import mounts
from tests.gke.api import Api
from tests.gke.flat_bucket import FlatMounts
from tests.gke.gcsfuse_options import MountOptions, OptionError, parse
from tests.gke.kubelet_plugin import KubeletPlugin
from tests.gke.protocols import protocol

DRIVER = "gcsfuse.csi.storage.gke.io"
VERSION = "1.0.0"
ANNOTATION = "gke-gcsfuse/volumes"
CONTEXT = "csi.storage.k8s.io/"
# What a volume's attributes may be, beside those that the kubelet adds.
ATTRIBUTES = ("bucketName", "mountOptions", "hostNetworkPodKSA")


class PublishError(Exception):
    """Why a volume is not mounted: the kubelet puts the message into a FailedMount event of the pod."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class Volumes:
    """CSI's Identity and Node services."""

    def __init__(self, api: Api, node: str, buckets: Path) -> None:
        self._api, self._node, self._buckets = api, node, buckets
        self._flat = FlatMounts()
        self._lock = threading.Lock()

    def stop(self) -> None:
        self._flat.stop()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        return protocol("csi").messages.GetPluginInfoResponse(name=DRIVER, vendor_version=VERSION)

    def GetPluginCapabilities(self, _request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        return protocol("csi").messages.GetPluginCapabilitiesResponse()

    def Probe(self, _request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        return protocol("csi").messages.ProbeResponse()

    def NodeGetInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        return protocol("csi").messages.NodeGetInfoResponse(node_id=self._node)

    def NodeGetCapabilities(self, _request: Any, _context: Any) -> Any:  # noqa: N802, the protocol's name
        messages = protocol("csi").messages
        # A pod's fsGroup becomes the mount's group, instead of a walk through the bucket.
        kind = messages.NodeServiceCapability.RPC.VOLUME_MOUNT_GROUP
        rpc = messages.NodeServiceCapability.RPC(type=kind)
        return messages.NodeGetCapabilitiesResponse(capabilities=[messages.NodeServiceCapability(rpc=rpc)])

    def NodePublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802, the protocol's name
        attributes = dict(request.volume_context)
        pod = f"{attributes.get(CONTEXT + 'pod.namespace')}/{attributes.get(CONTEXT + 'pod.name')}"
        try:
            self._publish(request, attributes)
        except PublishError as error:
            print(f"not mounted for {pod}: {error}", flush=True)
            context.abort(error.code, str(error))
        except (ApiException, HTTPError, OSError, ValueError) as error:
            print(f"not mounted for {pod}: {error}", flush=True)
            context.abort(grpc.StatusCode.INTERNAL, f"failed to mount volume: {error}")
        print(f"mounted {attributes['bucketName']} for {pod}", flush=True)
        return protocol("csi").messages.NodePublishVolumeResponse()

    def NodeUnpublishVolume(self, request: Any, context: Any) -> Any:  # noqa: N802, the protocol's name
        target = Path(request.target_path).resolve()
        try:
            if not request.target_path:
                raise PublishError(grpc.StatusCode.INVALID_ARGUMENT, "NodeUnpublishVolume target path must be provided")
            with self._lock:
                while mounts.mounted(target):
                    mounts.unmount(target)
                self._flat.ended(target)
                if target.is_dir():
                    target.rmdir()
        except PublishError as error:
            context.abort(error.code, str(error))
        except OSError as error:
            context.abort(grpc.StatusCode.INTERNAL, f"failed to unmount: {error}")
        print(f"unmounted {target}", flush=True)
        return protocol("csi").messages.NodeUnpublishVolumeResponse()

    def _publish(self, request: Any, attributes: Mapping[str, str]) -> None:
        # As /proc/self/mountinfo names it.
        target = Path(request.target_path).resolve()
        options = _options(request, attributes)
        bucket = attributes["bucketName"]
        policy = self._policy(bucket)
        self._check_access(bucket, policy, attributes)
        self._check_annotation(attributes)
        folder = (self._buckets / bucket).resolve()
        source = (folder / options.only_dir.strip("/")).resolve()
        if not source.is_relative_to(folder) or not source.is_dir():
            raise PublishError(grpc.StatusCode.NOT_FOUND, f'only-dir "{options.only_dir}" is no folder of the bucket')
        with self._lock:
            if mounts.mounted(target):
                return
            target.mkdir(mode=0o750, parents=True, exist_ok=True)
            if policy.get("hierarchicalNamespace", False):
                os.chown(source, options.uid, options.gid)
                source.chmod(options.dir_mode)
                mounts.bind(source, target, options.read_only)
            else:
                self._flat.mount(bucket, source, target, options)

    def _policy(self, bucket: str) -> Mapping[str, Any]:
        """What stands beside the bucket, as it is now. Raises PublishError where there is no bucket."""
        if "/" in bucket or bucket.startswith(".") or not (self._buckets / bucket).is_dir():
            raise PublishError(
                grpc.StatusCode.NOT_FOUND, f'failed to get GCS bucket "{bucket}": storage: bucket doesn\'t exist'
            )
        path = self._buckets / f"{bucket}.iam.json"
        policy: Mapping[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        unknown = policy.keys() - {"members", "hierarchicalNamespace"}
        if unknown:
            raise PublishError(
                grpc.StatusCode.INTERNAL,
                f"{path.name} holds {', '.join(sorted(unknown))}; there are members and hierarchicalNamespace",
            )
        return policy

    def _check_access(self, bucket: str, policy: Mapping[str, Any], attributes: Mapping[str, str]) -> None:
        member = f"{attributes[CONTEXT + 'pod.namespace']}/{attributes[CONTEXT + 'serviceAccount.name']}"
        if member not in policy.get("members", []):
            raise PublishError(
                grpc.StatusCode.PERMISSION_DENIED,
                f'failed to get GCS bucket "{bucket}": googleapi: Error 403: the service account {member} does not '
                "have storage.objects.list access to the Google Cloud Storage bucket., forbidden",
            )

    def _check_annotation(self, attributes: Mapping[str, str]) -> None:
        namespace, name = attributes[CONTEXT + "pod.namespace"], attributes[CONTEXT + "pod.name"]
        pod = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        if pod["metadata"].get("annotations", {}).get(ANNOTATION, "").lower() != "true":
            raise PublishError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'failed to find the sidecar container in Pod spec: the pod lacks the annotation {ANNOTATION}: "true"',
            )


class Driver:
    """The driver on one node."""

    def __init__(self, api: Api, node: str, kubelet: Path, buckets: Path) -> None:
        self._volumes = Volumes(api, node, buckets)
        self._plugin = KubeletPlugin("CSIPlugin", DRIVER, "gcsfuse", [VERSION], kubelet)

    def start(self) -> None:
        self._plugin.serve("csi", self._volumes, "Identity", "Node")

    def stop(self) -> None:
        self._plugin.stop()
        self._volumes.stop()


def _options(request: Any, attributes: Mapping[str, str]) -> MountOptions:
    """The mount's options. Raises PublishError for a request that GKE's driver refuses."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    if not request.target_path:
        raise PublishError(invalid, "NodePublishVolume target path must be provided")
    if attributes.get(CONTEXT + "ephemeral") != "true":
        raise PublishError(invalid, f"{DRIVER} here takes volumes that stand in the pod (csi:), not PersistentVolumes")
    if not attributes.get("bucketName"):
        raise PublishError(
            invalid, 'NodePublishVolume VolumeContext "bucketName" must be provided for ephemeral storage'
        )
    unknown = [name for name in attributes if name not in ATTRIBUTES and not name.startswith(CONTEXT)]
    if unknown:
        raise PublishError(
            invalid, f"the volume attributes {', '.join(sorted(unknown))} have no effect here; use {ATTRIBUTES[1]}"
        )
    group = request.volume_capability.mount.volume_mount_group
    # As in GKE's driver, what the pod's fsGroup gives can be overridden by the volume.
    options = [f"gid={group},file-mode=664,dir-mode=775"] if group else []
    options += ["ro"] if request.readonly else []
    try:
        return parse(",".join([*options, attributes.get("mountOptions", "")]))
    except OptionError as error:
        raise PublishError(invalid, f"gcsfuse failed with error: {error}") from error
