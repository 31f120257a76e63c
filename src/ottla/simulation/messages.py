"""The messages between the nodes of a simulated cluster.

Plain tuples: kind, from, to, partition, then the fields of the kind. Node 0 is the store. The brokers start at 1, and
the clients follow them.
"""

from typing import Any, Final

Message = tuple[Any, ...]

STORE: Final = 0

FETCH: Final = 0
"""broker epoch, leader epoch, offset, last fetched epoch, whether the follower has yet to cut (old protocols)"""
FETCHED: Final = 1
"""leader epoch and offset of the request, then a list of entries, an EpochEnd, or an ErrorCode; the high watermark"""
ALTER: Final = 2
"""broker epoch, leader epoch, partition epoch, ISR with broker epochs"""
ALTERED: Final = 3
"""leader epoch and partition epoch of the request, then a PartitionState or an ErrorCode"""
PRODUCE: Final = 4
"""value"""
PRODUCED: Final = 5
"""value, offset, -1 for a refusal"""
APPEND: Final = 6
"""a decision on its way from a controller to the store: controller epoch, the end of the log it knows, the image"""
LOOK: Final = 7
"""a question to a coordinator: its number"""
LOOKED: Final = 8
"""number of the question, the newest value the coordinator knows, -1 for none, -2 for a refusal"""
CLAIMED_FETCH: Final = 9
"""a client says it is a replica: the replica, its broker epoch, leader epoch, offset, last fetched epoch"""
