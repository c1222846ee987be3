"""The Kubernetes API as plain dictionaries: what the programs here read and write of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes import client, config

Object = dict[str, Any]
REQUEST_SECONDS = 10


class Api:
    """The few requests that the programs make, by path.

    They raise kubernetes.client.ApiException with the server's status, and urllib3's errors where there is no server.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._client = config.new_client_from_config(str(kubeconfig))

    def get(self, path: str, **query: str) -> Object:
        return self._call("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Object) -> Object:
        return self._call("POST", path, body=body)

    def replace(self, path: str, body: Object) -> Object:
        return self._call("PUT", path, body=body)

    def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Object | None = None
    ) -> Object:
        request = self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = self._client.call_api(*request, _request_timeout=REQUEST_SECONDS)
        data = response.read()
        if not 200 <= response.status <= 299:
            raise client.ApiException(status=response.status, reason=response.reason, body=data.decode())
        content: Object = json.loads(data)
        return content
