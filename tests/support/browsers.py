"""A headless Chromium, driven by Selenium, which records violations of the page's policy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Selenium takes half a second to load, so only a test that starts a browser loads it.
if TYPE_CHECKING:
    from selenium import webdriver
    from selenium.webdriver.remote.webelement import WebElement

# The code points of keys, from the W3C's WebDriver, "Keyboard actions".
BACKSPACE, ENTER, ESCAPE = "\ue003", "\ue007", "\ue00c"

_SECONDS = 30
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US")
# Run in each document before its own scripts.
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
window.addEventListener("error", (event) => window.violations.push(String(event.message)));
window.addEventListener("unhandledrejection", (event) => window.violations.push(String(event.reason)));
"""


class Browser:
    """One window.  `find` waits until the element exists."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def find(self, selector: str) -> WebElement:
        """Return the first visible element."""
        return self.until(lambda: next(iter(each for each in self.all(selector) if each.is_displayed()), None))

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements there are."""
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element, hidden or not."""
        script = "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)"
        found: list[str] = self.run(script, selector)
        return found

    def run(self, script: str, *values: object) -> Any:
        """Run a script in the page, and return its value."""
        return self.driver.execute_script(script, *values)

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition is true, and return its value."""
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, _SECONDS, poll_frequency=0.05).until(lambda _: condition())

    def resize(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the size of the window, and whether the user prefers a light or a dark page."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def save(self, path: Path) -> None:
        """Save a picture of the window."""
        assert self.driver.save_screenshot(str(path))

    def violations(self) -> list[str]:
        """Return the violations of the policy, and the errors of scripts, since the page was opened."""
        # Chromium also logs answers that refuse a request, as the server is asked to in some tests.
        entries = [entry for entry in self.driver.get_log("browser") if entry["source"] != "network"]
        logged = [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
        return [*self.run("return window.violations"), *logged]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser with a profile in a folder; skip the test if there is no Chromium."""
    program, driver_program = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver_program is None:
        pytest.skip("chromium is not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for option in (*_OPTIONS, f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_program))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _WATCH})
        yield Browser(driver)
    finally:
        driver.quit()
