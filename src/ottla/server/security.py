"""Who clients are and what they may do: the parts of a broker that know it, made of its settings and the metadata.

A broker without SASL and without an authorizer has none of them.
"""

import logging
import os
import re
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.broker.access import ALLOW_ALL, Authorizer, audit_log
from ottla.gateways.kafka.gateway import KafkaGateway
from ottla.metadata.controller.controller import Controller
from ottla.metadata.image.delta import MetadataDelta
from ottla.metadata.image.image import MetadataImage
from ottla.model.errors import ApiError
from ottla.model.printable import printable
from ottla.runtime.environment import Environment
from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.definition import InvalidSettingError

if TYPE_CHECKING:
    from ottla.broker.acl_authorizer import AclAuthorizer
    from ottla.broker.authentication import Authentication
    from ottla.metadata.controller.scram_alteration import ScramAlteration
    from ottla.runtime.rng import Rng

logger = logging.getLogger(__name__)

USERS_VARIABLE: Final = "OTTLA_SCRAM_USERS"
_USER_LINE: Final = re.compile(r"(?P<mechanism>SCRAM-SHA-(?:256|512))=\[(?P<options>.*)\]")
_FIRST_ITERATIONS: Final = 4_096
_SALT_BYTES: Final = 16


class Security:
    """A subscriber of the metadata. Belongs to the event loop."""

    def __init__(self, settings: BrokerSettings, environment: Environment, authorizer: Authorizer | None) -> None:
        """`authorizer` is one of the caller's own, in place of what the settings name."""
        self._settings = settings
        self._environment = environment
        if settings.text("authorizer.class.name") or _has_sasl(settings):
            audit_log.setLevel(min(logging.INFO, logging.getLogger().level))
        self._acls: AclAuthorizer | None = None
        self._authentication: Authentication | None = None
        self._gateway: KafkaGateway | None = None
        self._current_image: Callable[[], MetadataImage] | None = None
        self._has_started = False
        self.authorizer: Authorizer = ALLOW_ALL if authorizer is None else authorizer
        """Says who may do what."""
        if authorizer is None and settings.text("authorizer.class.name"):
            from ottla.broker import acl_authorizer

            super_users = (each.strip() for each in (settings.text("super.users") or "").split(";"))
            self.authorizer = self._acls = acl_authorizer.AclAuthorizer(
                filter(None, super_users),
                allows_unknown=settings.boolean("allow.everyone.if.no.acl.found"),
                clock=environment.clock,
            )

    def attach(self, gateway: KafkaGateway, current_image: Callable[[], MetadataImage]) -> None:
        """Clients come by this gateway."""
        self._gateway, self._current_image = gateway, current_image
        gateway.keeps_hosts = self._acls is not None
        self.configure(self._settings)

    def configure(self, settings: BrokerSettings) -> None:
        """Apply what is set, to clients that come from now on."""
        if self._gateway is None or self._current_image is None:
            return
        if not _has_sasl(settings):
            self._gateway.authentication = self._authentication = None
        elif self._authentication is None:
            from ottla.broker import authentication

            self._authentication = authentication.Authentication(settings, self._current_image, self._environment)
            self._gateway.authentication = self._authentication
            if self._has_started:
                self._environment.tasks.spawn(self._authentication.start(), "keys that sign tokens")
        else:
            self._authentication.configure(settings)

    async def learn(self, cluster_secret: Callable[[], Awaitable[bytes]]) -> None:
        """The metadata store is open. Raises StoreError, and InvalidSettingError."""
        self._has_started = True
        if self._authentication is not None:
            self._authentication.use_secret(await cluster_secret())
            await self._authentication.start()

    def on_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata changed."""
        del delta
        self.apply(image)

    def apply(self, image: MetadataImage) -> None:
        """Have its ACLs hold."""
        if self._acls is not None:
            self._acls.apply(image.acls)

    async def add_first_users(self, controller: Controller, image: MetadataImage) -> None:
        """Give a cluster that has no SCRAM user those of the file and of the environment, where this broker decides.

        Raises InvalidSettingError for what cannot be read, and for a file that others can open.
        """
        path = self._settings.text("sasl.scram.users.file")
        lines = os.environ.get(USERS_VARIABLE, "")
        if image.scram_credentials or not controller.is_active:
            return
        if path is None and not lines:
            if _needs_a_scram_user(self._settings):
                logger.warning(
                    "nobody can log in: every listener asks for a SCRAM user, and the cluster has none; set "
                    "sasl.scram.users.file, or the variable %s, and start the broker again",
                    USERS_VARIABLE,
                )
            return
        text = lines + "\n" + (_secret_file(Path(path)) if path is not None else "")
        alterations = await self._environment.tasks.in_thread(first_users, text, self._environment.rng)
        if not alterations:
            return
        from ottla.metadata.controller.scram_alteration import decide_scram_alteration

        try:
            outcomes = await controller.decide(lambda newest: decide_scram_alteration(newest, alterations))
        except ApiError as error:
            logger.warning("the first users could not be added: %s", error.message)
            return
        audit_log.info("the first users are %s", ", ".join(map(printable, outcomes)))
        for user, refusal in outcomes.items():
            if refusal is not None:
                raise InvalidSettingError(f"the first user {user} cannot be added: {refusal.message}")


def _has_sasl(settings: BrokerSettings) -> bool:
    return any(protocol.has_sasl for protocol in settings.listeners.protocols.values())


def _needs_a_scram_user(settings: BrokerSettings) -> bool:
    """Whether who has none of them comes by no listener, not even to add one."""
    for name, protocol in settings.listeners.protocols.items():
        mechanisms = settings.for_listener(name, "sasl.enabled.mechanisms")
        assert isinstance(mechanisms, tuple)
        if not protocol.has_sasl or any(not each.startswith("SCRAM-") for each in mechanisms):
            return False
    return True


def first_users(text: str, rng: "Rng") -> "list[ScramAlteration]":
    """The credentials of lines `SCRAM-SHA-512=[name=alice,password=secret,iterations=4096]`, the form that
    `kafka-storage format --add-scram` has. Raises InvalidSettingError, which repeats no line: it has a password.

    Milliseconds of work for each user: call it in a thread.
    """
    from ottla.metadata.controller.scram_alteration import ScramAlteration
    from ottla.model.scram_credential import SCRAM_TYPES
    from ottla.security.scram import MECHANISMS, credential_of

    numbers = {name: number for number, name in SCRAM_TYPES.items()}
    found = []
    for number, line in enumerate(map(str.strip, text.strip().splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        match = _USER_LINE.fullmatch(line)
        options = dict(part.partition("=")[::2] for part in match["options"].split(",")) if match else {}
        options = {key.strip(): value for key, value in options.items()}
        iterations = options.pop("iterations", str(_FIRST_ITERATIONS))
        if match is None or set(options) != {"name", "password"} or not iterations.isdecimal():
            raise InvalidSettingError(
                f"line {number} of the first SCRAM users is not SCRAM-SHA-512=[name=NAME,password=PASSWORD]"
            )
        mechanism = match["mechanism"]
        credential = credential_of(
            MECHANISMS[mechanism], options["password"].encode(), rng.token_bytes(_SALT_BYTES), int(iterations)
        )
        found.append(ScramAlteration(options["name"], numbers[mechanism], credential))
    return found


def _secret_file(path: Path) -> str:
    """What a file says that nobody but its owner can open. Raises InvalidSettingError."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InvalidSettingError(
                f"sasl.scram.users.file={path} has passwords, and other users can open it (mode {mode:04o}): run "
                f"`chmod 600 {path}`"
            )
        return path.read_text()
    except OSError as error:
        raise InvalidSettingError(f"sasl.scram.users.file={path} cannot be read: {error.strerror}") from error
