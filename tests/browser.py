"""Drives the system's Chromium through the pipe of its DevTools protocol: real clicks, no package, no port."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAM = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="there is no chromium; on Debian: apt-get install chromium")

_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-component-update")
_PATIENCE_S = 60


@dataclass
class Page:
    """One page: what it logged, what it asked the network for, and what it holds."""

    to_browser: int
    from_browser: int
    session: str = ""
    called: int = 0
    unread: bytes = b""
    events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Send a command, and wait for its result; events on the way are kept."""
        self.called += 1
        message: dict[str, object] = {"id": self.called, "method": method, "params": params}
        os.write(
            self.to_browser,
            json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0",
        )
        while True:
            answer = self._next()
            if answer.get("id") == self.called:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page; a promise is awaited."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Open a file from disk in a window of this size, and wait until it is loaded."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.until("document.readyState === 'complete' && performance.timing.loadEventEnd > 0")

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, condition
            time.sleep(0.05)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """Press a key."""
        codes = {"Enter": 13, "Tab": 9, "Space": 32}
        told = {"key": " " if key == "Space" else key, "code": key, "windowsVirtualKeyCode": codes[key]}
        told |= {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **told)

    def hover(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path) -> None:
        """Take a picture of the window."""
        path.write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def printed(self, path: Path) -> None:
        """Print into a PDF."""
        path.write_bytes(b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def problems(self) -> list[str]:
        """What the page complained of: exceptions, errors and warnings on the console, refusals of its policy."""
        self.run("0")
        return [
            json.dumps(each["params"])
            for each in self.events
            if each.get("method") == "Runtime.exceptionThrown"
            or (
                each.get("method") == "Runtime.consoleAPICalled"
                and each["params"]["type"] in {"error", "warning", "assert"}
            )
            or (each.get("method") == "Log.entryAdded" and each["params"]["entry"]["level"] in {"error", "warning"})
        ]

    def requests(self) -> list[str]:
        """What was asked of the network, the file itself among it."""
        self.run("0")
        return [
            each["params"]["request"]["url"]
            for each in self.events
            if each.get("method") == "Network.requestWillBeSent"
        ]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            chunk = os.read(self.from_browser, 1 << 20)
            assert chunk, "chromium ended"
            self.unread += chunk
        message, _, self.unread = self.unread.partition(b"\0")
        return dict(json.loads(message))


@contextmanager
def browser() -> Iterator[Page]:
    """A fresh Chromium with one page, and nothing of it left afterwards."""
    with tempfile.TemporaryDirectory(prefix="tracelab-browser-", ignore_cleanup_errors=True) as profile:
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        shell = f'exec "$0" "$@" 3<&{commands} 4>&{answers}'  # where Chromium looks for the pipe
        process = subprocess.Popen(
            ["bash", "-c", shell, str(PROGRAM), *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        try:
            yield _page(to_browser, from_browser)
        finally:
            os.close(to_browser)
            process.terminate()
            process.wait(timeout=30)
            os.close(from_browser)


def _page(to_browser: int, from_browser: int) -> Page:
    page = Page(to_browser, from_browser)
    target = page.call("Target.createTarget", url="about:blank")["targetId"]
    page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network"):
        page.call(f"{domain}.enable")
    return page
