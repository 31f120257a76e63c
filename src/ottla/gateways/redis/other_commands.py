"""Commands of Redis that are not served, for which a client is told why."""

from typing import Final

_OF_OTHER_TYPES: Final = """
append bitcount bitfield bitop bitpos blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin decr decrby
geoadd geodist geohash geopos georadius geosearch get getbit getdel getex getrange getset hdel hexists hget
hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen hvals incr incrby
incrbyfloat lcs lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim mget mset msetnx
pfadd pfcount pfmerge psetex rpop rpoplpush rpush rpushx sadd scard sdiff sdiffstore set setbit setex setnx
setrange sinter sintercard sinterstore sismember smembers smismember smove sort sort_ro spop srandmember srem
sscan strlen substr sunion sunionstore zadd zcard zcount zdiff zdiffstore zincrby zinter zinterstore zlexcount
zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex
zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion
zunionstore
"""
_NOT_SERVED: Final = """
bgrewriteaof bgsave dump eval eval_ro evalsha evalsha_ro failover fcall fcall_ro migrate monitor psubscribe
psync publish pubsub punsubscribe replicaof restore save shutdown slaveof spublish ssubscribe subscribe
sunsubscribe swapdb sync unsubscribe xidmprecord
"""
OF_OTHER_TYPES: Final = frozenset(_OF_OTHER_TYPES.split())
"""Those of strings, lists, hashes, sets and other types."""
NOT_SERVED: Final = frozenset(_NOT_SERVED.split())
"""Those of keys and of the server that a log has no use for, or that are not there yet."""
