"""What a test sees of a resource that must be there."""

from driver.gcp.cloud import Cloud
from driver.gcp.resource import Found, Resource


def look(resource: Resource, cloud: Cloud) -> Found:
    found = resource.describe(cloud)
    assert found is not None, f"{resource.key} is not there"
    return found
