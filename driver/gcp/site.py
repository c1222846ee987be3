"""The site file: the one description of the Google Cloud side, read and checked once."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from driver.gcp import site_rules
from driver.gcp.site_formats import (
    BucketName,
    ClusterName,
    KubernetesName,
    Name,
    NetworkPath,
    ProjectId,
    Reservation,
    SubnetworkPath,
    Version,
    Zone,
    range_problems,
)
from driver.tpu import Slice
from driver.tpu import find as find_slice


class _Part(BaseModel):
    # Strict: what YAML reads as another type (true for 1) is refused, not turned into what is wanted.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=to_camel)


class DefaultPool(_Part):
    """The pool of machines without TPUs: Ray's head and the system's pods."""

    machine_type: Name = "n1-standard-16"
    nodes: int = Field(default=1, ge=1, le=1000)
    """Per zone of the cluster."""


class ClusterSettings(_Part):
    name: ClusterName
    existing: bool = False
    """Use the cluster that is there."""
    mode: Literal["standard", "autopilot"] = "standard"
    location: Literal["zone", "region"] | None = None
    """Whether the control plane is in the zone or in the whole region; Autopilot is always regional."""
    release_channel: Literal["rapid", "regular", "stable", "extended"] | None = "regular"
    version: Version = ""
    """A GKE version such as 1.35.2-gke.1842000; empty for the channel's own."""
    network: NetworkPath = "default"
    subnetwork: SubnetworkPath = ""
    default_pool: DefaultPool = DefaultPool()

    @field_validator("location")
    @classmethod
    def _autopilot_is_regional(cls, location: str | None, others: ValidationInfo) -> str | None:
        if location == "zone" and others.data.get("mode") == "autopilot":
            raise ValueError(
                "cluster.location is zone and cluster.mode is autopilot. Autopilot clusters are regional: take "
                "cluster.location out."
            )
        return location


class TpuSettings(_Part):
    type: str
    topology: str
    slices: int = Field(ge=1, le=256)
    chips_per_host: int | None = Field(default=None, validate_default=True)
    """None for the table's first way to build the topology."""
    capacity: Literal["on-demand", "spot", "reservation", "flex-start"] = "on-demand"
    reservation: Reservation = Field(default="", validate_default=True)
    reservation_project: ProjectId | Literal[""] = ""
    """Where the reservation is; empty for the site's own project."""
    max_run_duration_seconds: int = Field(default=0, ge=0, le=604800)
    """After which flex-start nodes end; 0 for Google's seven days."""

    @field_validator("chips_per_host")
    @classmethod
    def _is_in_the_table(cls, chips_per_host: int | None, others: ValidationInfo) -> int | None:
        if "type" in others.data and "topology" in others.data:
            find_slice(others.data["type"], others.data["topology"], chips_per_host)
        return chips_per_host

    @field_validator("reservation")
    @classmethod
    def _goes_with_its_capacity(cls, reservation: str, others: ValidationInfo) -> str:
        capacity = others.data.get("capacity")
        if capacity == "reservation" and not reservation:
            raise ValueError(
                "tpu.capacity is reservation and tpu.reservation is missing. It is the reservation's name."
            )
        if reservation and capacity not in ("reservation", None):
            raise ValueError(
                f"tpu.reservation is {reservation!r} and tpu.capacity is {capacity}. A reservation is used with "
                "tpu.capacity: reservation, and only with it."
            )
        return reservation

    @field_validator("reservation_project")
    @classmethod
    def _goes_with_a_reservation(cls, project: str, others: ValidationInfo) -> str:
        if project and others.data.get("reservation") == "":
            raise ValueError(
                f"tpu.reservationProject is {project!r} and tpu.reservation is missing. It says where that one is."
            )
        return project

    @field_validator("max_run_duration_seconds")
    @classmethod
    def _goes_with_flex_start(cls, seconds: int, others: ValidationInfo) -> int:
        capacity = others.data.get("capacity")
        if seconds and capacity not in ("flex-start", None):
            raise ValueError(
                f"tpu.maxRunDurationSeconds is {seconds} and tpu.capacity is {capacity}. It ends flex-start hosts only."
            )
        return seconds


class NamedNetwork(_Part):
    network: Name
    subnetwork: Name


class NetworkSettings(_Part):
    profile: Literal["explicit", "auto"] = "explicit"
    """explicit: networks that we make, or those named under `existing`. auto: GKE makes them."""
    ranges: Annotated[tuple[str, ...], Field(strict=False)] = ("10.50.0.0/16", "10.60.0.0/16")
    existing: tuple[NamedNetwork, ...] = Field(default=(), strict=False, validate_default=True)
    mtu: int = Field(default=8896, ge=1300, le=8896)

    @field_validator("ranges")
    @classmethod
    def _are_apart(cls, ranges: tuple[str, ...]) -> tuple[str, ...]:
        problems = list(range_problems(ranges))
        if problems:
            raise ValueError("\n".join(problems))
        return ranges

    @field_validator("existing")
    @classmethod
    def _fits_the_profile(cls, existing: tuple[NamedNetwork, ...], others: ValidationInfo) -> tuple[NamedNetwork, ...]:
        if existing and others.data.get("profile") == "auto":
            raise ValueError(
                "network.existing is set and network.profile is auto. GKE makes its own networks then: take one of the "
                "two out."
            )
        if not existing and others.data.get("profile") == "explicit" and others.data.get("ranges") == ():
            raise ValueError(
                "network.ranges is empty. Give a range per network, name networks under network.existing, or set "
                "network.profile: auto."
            )
        return existing


class BucketSettings(_Part):
    name: BucketName
    existing: bool = False
    hierarchical_namespace: bool = True
    """Checkpoints are committed by renaming a folder, which only such a bucket does in one step."""


class ImageSettings(_Part):
    repository: Name = "maxtext-multislice"
    """In Artifact Registry, in the site's region; made when an image is built."""


class Site(_Part):
    """What one site.yaml says. Everything is checked that can be checked without asking Google."""

    project: ProjectId
    zone: Zone
    """Where the TPUs are, and a zonal cluster."""
    cluster: ClusterSettings
    tpu: TpuSettings
    network: NetworkSettings = NetworkSettings()
    bucket: BucketSettings
    namespace: KubernetesName = "maxtext"
    service_account: KubernetesName = "maxtext"
    image: ImageSettings = ImageSettings()

    @property
    def region(self) -> str:
        """The zone's region."""
        return self.zone.rpartition("-")[0]

    @property
    def location(self) -> str:
        """Where the cluster's control plane is: the zone or the region."""
        return self.region if self.regional else self.zone

    @property
    def regional(self) -> bool:
        return self.cluster.mode == "autopilot" or self.cluster.location == "region"

    @property
    def id(self) -> str:
        """What the mark on our resources says: unique within the project."""
        return f"{self.cluster.name}_{self.location}"

    @property
    def slice(self) -> Slice:
        """The machines of one slice, from the chart's table of TPU types."""
        return find_slice(self.tpu.type, self.tpu.topology, self.tpu.chips_per_host)

    @property
    def workload_pool(self) -> str:
        """The project's workload identity pool, in which its clusters' Kubernetes service accounts are."""
        return f"{self.project}.svc.id.goog"

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = list(site_rules.problems(self))
        if problems:
            raise ValueError("\n".join(problems))
        return self
