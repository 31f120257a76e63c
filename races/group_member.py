"""A member of a classic group over raw requests of every version: it joins, syncs, commits, and leaves or vanishes."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ottla.model.error_code import ErrorCode
from ottla.protocol.messages import heartbeat as hb
from ottla.protocol.messages import join_group as jg
from ottla.protocol.messages import leave_group as lg
from ottla.protocol.messages import sync_group as sg
from races import group_requests as groups
from races.log_requests import pick_version
from races.raw_connection import Ask, RawConnection
from races.stage import KEPT, LIVING, Stage
from races.topic_owner import AWAY_S

MEMBER_GROUPS = ("members-0", "members-1")
SESSION_MS = 6_000
REBALANCE_MS = 3_000


class GroupMember:
    """One member, with one life after the other."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.rng = Random(f"{stage.rng.random()}/member-{number}")
        self.number = number

    async def run(self) -> None:
        """Until the round ends."""
        while not self.stage.is_stopping:
            connection = RawConnection(self.stage, self.stage.name(f"member-{self.number}"))
            try:
                await connection.open()
                await self._membership(connection, self.rng.choice(MEMBER_GROUPS))
            except OSError:
                await asyncio.sleep(AWAY_S)
            connection.close()

    async def _membership(self, connection: RawConnection, group: str) -> None:
        await connection.ask(groups.find_coordinator(self.stage, self.rng, group))
        joined = await self._join(connection, group, "")
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            joined = await self._join(connection, group, joined.member_id)
        if joined.error_code:
            await asyncio.sleep(AWAY_S)
            return
        member = joined.member_id, joined.generation_id
        synced = await self._sync(connection, group, joined)
        for _ in range(self.rng.randint(0, 6)):
            if synced.error_code or self.stage.is_stopping:
                break
            topic = self.rng.choice(LIVING + KEPT)
            connection.send(
                [
                    groups.commit_offsets(self.stage, self.rng, group, topic, member),
                    groups.fetch_offsets(self.stage, self.rng, group, topic),
                    self._heartbeat(group, member),
                ]
            )
            if not await connection.settled(self.stage.patience_s):
                return
            await asyncio.sleep(self.rng.uniform(0, 0.3))
        if self.rng.random() < 0.7:
            await connection.ask(self._leave(group, member[0]))
            if self.rng.random() < 0.2:
                await connection.ask(groups.delete_group(self.stage, self.rng, group))

    async def _join(self, connection: RawConnection, group: str, member_id: str) -> Any:
        protocols = (jg.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0"),)
        request = jg.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        # In version 0 the session's time is the rebalance's as well.
        version = pick_version(jg.JoinGroupRequest, self.rng)
        return await connection.ask(Ask(request, version, wait_s=2 * SESSION_MS / 1000, about=group))

    async def _sync(self, connection: RawConnection, group: str, joined: Any) -> Any:
        assignments = tuple(
            sg.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"\0\0\0\0\0\0\0\0\0\0")
            for each in joined.members
        )
        request = sg.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        version = pick_version(sg.SyncGroupRequest, self.rng)
        return await connection.ask(Ask(request, version, wait_s=2 * SESSION_MS / 1000, about=group))

    def _heartbeat(self, group: str, member: tuple[str, int]) -> Ask:
        request = hb.HeartbeatRequest(group_id=group, member_id=member[0], generation_id=member[1])
        return Ask(request, pick_version(hb.HeartbeatRequest, self.rng), about=group)

    def _leave(self, group: str, member_id: str) -> Ask:
        version = pick_version(lg.LeaveGroupRequest, self.rng)
        if version < 3:
            return Ask(lg.LeaveGroupRequest(group_id=group, member_id=member_id), version, about=group)
        request = lg.LeaveGroupRequest(group_id=group, members=(lg.MemberIdentity(member_id=member_id),))
        return Ask(request, version, about=group)
