"""A server that answers HTTP: what InfluxDB and Prometheus have in common."""

import signal

from unskew.deploy.servers.loopback import ask
from unskew.deploy.servers.server import Server


class HttpServer(Server):
    """A server whose clients have a URL, and that says at a path of it when it can be used."""

    health: str
    """Path that answers with status 200 as soon as it can be used."""
    # It may be paused when we die; its log of writes makes that as good as a stop.
    leash = signal.SIGKILL

    @property
    def url(self) -> str:
        """`http://host:port` for clients; known from the first start on."""
        return f"http://{self.listens}"

    def _answers(self) -> bool:
        try:
            ask(self.url + self.health, timeout=2)
        except OSError:
            return False
        if not self.alive:  # it is another one on our port that answers
            return False
        self._ready()
        return True

    def _ready(self) -> None:
        """Do what is left to do when it answers for the first time."""

    def _announcement(self) -> dict[str, str]:
        return {"url": self.url}
