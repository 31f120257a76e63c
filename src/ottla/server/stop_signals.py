"""The signals that stop a broker cleanly."""

import signal


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT, and SIGHUP, which stops Kafka as well: a closed terminal must not kill a broker.

    SIGHUP is left alone where it is ignored already, as under `nohup`: who wrote that wants the broker to go on.
    """
    stopping = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        stopping.append(signal.SIGHUP)
    return stopping
