"""A headless Chromium driven over its debugging pipe: opens pages, presses keys, evaluates.

Needs nothing but the browser: the DevTools protocol is JSON, ended by NUL, on file descriptors 3 and 4.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SECONDS = 60.0

KEYS = {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36, "End": 35, "Escape": 27,
    "Tab": 9, "Enter": 13, " ": 32,
}  # fmt: skip


def chromium() -> str | None:
    """Path of a browser, or None."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


class Browser:
    """A running browser; use as a context manager."""

    def __init__(self, profile: Path) -> None:
        path = chromium()
        if path is None:
            raise RuntimeError("there is no Chromium")
        theirs_in, self._out = _high(os.pipe())
        self._in, theirs_out = _high(os.pipe())

        def place() -> None:
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        options = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe",
            f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        self._process = subprocess.Popen([path, *options], preexec_fn=place, close_fds=False, **silent)  # type: ignore[call-overload]
        os.close(theirs_in)
        os.close(theirs_out)
        self._number = 0
        self._read = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its result; events that come meanwhile are kept in ``events``."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        ends = time.monotonic() + SECONDS
        while True:
            answer = self._message(ends)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            if "method" in answer:
                self.events.append(answer)

    def _message(self, ends: float) -> dict[str, Any]:
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(0.0, ends - time.monotonic()))
            chunk = os.read(self._in, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("the browser does not answer")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def page(self, address: str, **look: Any) -> Page:
        """A tab at ``address``; ``look`` as for ``Page.look``."""
        return Page(self, address, look)


def _high(pipe: tuple[int, int]) -> tuple[int, int]:
    """The same pipe on descriptors that do not get in the way of 3 and 4."""
    moved = []
    for end in pipe:
        moved.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return moved[0], moved[1]


class Page:
    """One tab."""

    def __init__(self, browser: Browser, address: str, look: dict[str, Any]) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._target = target
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._do(f"{domain}.enable")
        self.look(**look)
        browser.events.clear()
        self._do("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def _do(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def close(self) -> None:
        """Close the tab."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def look(self, width: int = 1280, height: int = 900, scheme: str = "light", still: bool = False) -> None:
        """Size of the window, colour scheme and motion of the system."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._do("Emulation.setDeviceMetricsOverride", **size)
        motion = "reduce" if still else "no-preference"
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
        self._do("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in features.items()])

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression. Raises RuntimeError where it throws."""
        answer = self._do("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 30.0) -> None:
        """Until ``expression`` is true. Raises TimeoutError."""
        ends = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > ends:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def press(self, key: str, times: int = 1, shift: bool = False) -> None:
        """Press and release a key, as a user would, where the focus is."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        code = KEYS.get(key, ord(key[0].upper()))
        common = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": code}
        for _ in range(times):
            self._do("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **common, **text)
            self._do("Input.dispatchKeyEvent", type="keyUp", **common)

    def point(self, x: float, y: float) -> None:
        """Move the pointer."""
        self._do("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def accessibility(self) -> list[dict[str, Any]]:
        """What assistive technology is told: the nodes of the accessibility tree, with name and properties."""
        self._do("Accessibility.enable")
        nodes: list[dict[str, Any]] = self._do("Accessibility.getFullAXTree")["nodes"]
        empty = {"name": {"value": ""}, "properties": [], "role": {"value": ""}}
        return [{**empty, **node} for node in nodes]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        self.value("0")
        events = self._browser.events
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Errors in the console, exceptions and refusals of the page's policy since it was opened."""
        self.value("0")
        found = []
        for event in self._browser.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found
