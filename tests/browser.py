"""A real browser on a real server: the machine's own Chromium, driven by Selenium.

    def test_something(chrome, committed_world):
        chrome.log_in(committed_world.alice.user)
        chrome.open("admin:index")
        assert chrome.complaints() == []

Pages come from a thread of this process, so rows must be committed (`committed_world`).
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.db import connections
from django.urls import reverse
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.wait import WebDriverWait

from controlplane.models import User

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
COMPLETE = "return document.readyState === 'complete'"
SIZES = {"wide": (1280, 900), "narrow": (390, 844)}


TOO_WIDE = """
const limit = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth <= limit) return [];
return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > limit + 1)
  .map((e) => `${e.tagName}#${e.id}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`);
"""


class QuietHandler(WSGIRequestHandler):
    """Serves without a line per request."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Server:
    """The plane on a port of its own, in threads of this process."""

    def __init__(self) -> None:
        self.httpd = ThreadedWSGIServer(("127.0.0.1", 0), QuietHandler)
        self.httpd.set_app(get_wsgi_application())
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        """Answer until stopped, then give back this thread's connections."""
        try:
            self.httpd.serve_forever(poll_interval=0.05)
        finally:
            connections.close_all()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.httpd.server_port}"

    def stop(self) -> None:
        """Answer no more."""
        self.httpd.shutdown()
        self.httpd.server_close()
        self.thread.join(timeout=10)


class Chrome:
    """A browser window that knows the plane's addresses."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.directory = directory
        self.driver = start_chromium()

    def open(self, name: str, *args: Any, query: str = "") -> None:
        """Go to a named address, or to a path."""
        path = name if name.startswith("/") else reverse(name, args=args)
        self.driver.get(f"{self.server.url}{path}{query}")

    def follow(self, by: str, value: str) -> None:
        """Click what leads to another page and wait until that page is there: a click may return before the old one is gone."""
        here = self.driver.find_element(By.TAG_NAME, "html")
        self.driver.find_element(by, value).click()
        WebDriverWait(self.driver, 30, poll_frequency=0.05).until(lambda _: self.replaced(here))

    def replaced(self, page: WebElement) -> bool:
        """Has another document taken this one's place, and been read to its end?"""
        try:
            return staleness_of(page)(self.driver) and self.driver.execute_script(COMPLETE)
        except WebDriverException:  # asked between two documents
            return False

    def log_in(self, user: User) -> None:
        """Be this person, without typing a password."""
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session.session_key, "url": self.server.url}
        self.driver.execute_cdp_cmd("Network.setCookie", cookie)

    def log_out(self) -> None:
        """Be nobody."""
        self.driver.delete_all_cookies()

    def complaints(self) -> list[str]:
        """What the console has complained about since the last call: CSP violations, script errors, failed loads."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def theme(self, name: str) -> None:
        """Show pages in light or dark, as a system setting would."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def size(self, name: str) -> None:
        """Use a window of one of the two sizes that pages are made for."""
        width, height = SIZES[name]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": name == "narrow"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def screenshot(self, name: str) -> Path:
        """The whole page as a PNG."""
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        width = self.driver.execute_script("return window.innerWidth")
        metrics = {"width": width, "height": max(height, 600), "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        path = self.directory / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def overflow(self) -> list[str]:
        """The elements that make the page wider than the window."""
        found: list[str] = self.driver.execute_script(TOO_WIDE)
        return found


def start_chromium() -> webdriver.Chrome:
    """Chromium from the PATH, headless; the test is skipped on a machine that has none."""
    binary = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver on the PATH")
    options = Options()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


@pytest.fixture
def live_plane(committed: None) -> Iterator[Server]:
    """A running server."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def chrome(live_plane: Server, tmp_path: Path) -> Iterator[Chrome]:
    """A browser; screenshots go to the test's temporary directory."""
    browser = Chrome(live_plane, tmp_path)
    yield browser
    browser.driver.quit()
