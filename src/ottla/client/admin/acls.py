"""ACLs: who may do what to which resources (KIP-140, KIP-290)."""

from collections.abc import Sequence

from msgspec.structs import astuple

from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.model.acl import AclBinding, AclFilter
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

EVERY_ACL = AclFilter()


async def describe_acls(cluster: Cluster, wanted: AclFilter = EVERY_ACL) -> list[AclBinding]:
    """The ACLs that a filter matches. Raises BrokerError, also where the cluster keeps no ACLs."""
    response = await cluster.ask_any(DescribeAclsRequest(*astuple(wanted)), DescribeAclsResponse)
    if response.error_code:
        raise broker_error(response.error_code, "ACLs were not described", response.error_message)
    return [
        AclBinding(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for each in response.resources
        for acl in each.acls
    ]


async def create_acls(cluster: Cluster, acls: Sequence[AclBinding]) -> None:
    """Add ACLs; one that is there already stays. Raises BrokerError for the first that was refused."""
    creations = tuple(AclCreation(*astuple(each)) for each in acls)
    response = await cluster.ask_any(CreateAclsRequest(creations), CreateAclsResponse)
    for acl, result in zip(acls, response.results, strict=True):
        if result.error_code:
            raise broker_error(result.error_code, f"the ACL {acl} was not added", result.error_message)


async def delete_acls(cluster: Cluster, wanted: AclFilter) -> list[AclBinding]:
    """Remove the ACLs that a filter matches; returns them. Raises BrokerError."""
    response = await cluster.ask_any(DeleteAclsRequest((DeleteAclsFilter(*astuple(wanted)),)), DeleteAclsResponse)
    [result] = response.filter_results
    if result.error_code:
        raise broker_error(result.error_code, "ACLs were not removed", result.error_message)
    return [
        AclBinding(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in result.matching_acls
    ]
