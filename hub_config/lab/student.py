"""A person at a browser, without the browser: the same requests, cookies, XSRF tokens and websockets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from gpu_kernels.client import PoolClient
from gpu_kernels.hub_config.lab.accounts import Login
from gpu_kernels.hub_config.lab.kernel_channel import KernelChannel

NAVIGATE = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "document"}
FETCH = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"}


class Refused(RuntimeError):
    """The hub or the Jupyter server said no; the text is what the person would see."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Student:
    """One login at one hub. Close it, or use it as a context manager.

    `timeout`: seconds without a byte after which a request is given up, as a browser does.
    """

    def __init__(self, url: str, login: Login, timeout: float = 90) -> None:
        self.url = url
        self.name = login.name
        self._password = login.password
        self._http = httpx.Client(
            base_url=url, follow_redirects=True, timeout=timeout, headers={"Origin": url}, trust_env=False
        )

    def __enter__(self) -> Student:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # --- the hub ---

    def log_in(self) -> None:
        """Fills in the login form. Raises Refused with the form's error."""
        form = self._visit("/hub/login")
        fields = {"username": self.name, "password": self._password, "_xsrf": _hidden_xsrf(form.text)}
        answer = self._http.post(f"/hub/login?next={quote('/hub/home')}", data=fields, headers=NAVIGATE)
        if answer.url.path != "/hub/home":
            raise Refused(answer.status_code, _error_on(answer.text))

    def start_server(self, course: str | None = None) -> list[str]:
        """Presses "Start My Server", follows the progress bar to its end; returns the progress messages.

        `course` is what to choose on the form that people in several courses get.
        """
        page = self._visit("/hub/spawn")
        if 'id="spawn_form"' in page.text:
            action = f"/hub/spawn?_xsrf={quote(self._xsrf('/hub/'))}"
            page = self._http.post(action, data={"course": course or ""}, headers=NAVIGATE)
        elif course is not None:
            raise Refused(page.status_code, "the hub asks for no course")
        if page.is_error:
            raise Refused(page.status_code, _error_on(page.text))
        return [event.get("message", "") for event in self._progress()]

    def open_lab(self) -> None:
        """Opens JupyterLab; the server sends the browser through the hub's OAuth and back."""
        page = self._visit(f"/user/{self.name}/lab")
        if page.url.path != f"/user/{self.name}/lab":
            raise Refused(page.status_code, f"ended at {page.url.path} instead of JupyterLab")

    def open_page(self, path: str) -> None:
        """Opens a page of one of the hub's services, which sends the browser through the hub's OAuth."""
        page = self._visit(path)
        if page.is_error or page.url.path != path:
            raise Refused(page.status_code, f"ended at {page.url.path} instead of {path}")

    def stop_server(self) -> None:
        """Presses "Stop My Server". Returns when the hub says that it has stopped."""
        path = f"/hub/api/users/{self.name}/server"
        self.hub_fetch("DELETE", path)
        while self.hub_fetch("GET", f"/hub/api/users/{self.name}").json()["servers"]:
            pass

    def pool_client(self, controller: str) -> PoolClient:
        """A client of the pool with a token that this person makes on the hub's token page."""
        path = f"/hub/api/users/{self.name}/tokens"
        body = {"note": "for the pool of GPUs", "expires_in": 3600}
        token = self._fetch("POST", path, self._xsrf("/hub/"), json=body).json()["token"]
        return PoolClient(controller, token)

    def _progress(self) -> Iterator[dict[str, Any]]:
        path = f"/hub/api/users/{self.name}/server/progress"
        with self._http.stream("GET", path, params={"_xsrf": self._xsrf("/hub/")}, headers=FETCH) as stream:
            stream.raise_for_status()
            for line in stream.iter_lines():
                if not line.startswith("data:"):
                    continue
                event = json.loads(line.removeprefix("data:"))
                yield event
                if event.get("failed"):
                    raise Refused(500, event.get("message", "the server did not start"))
                if event.get("ready"):
                    return

    def hub_fetch(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A call of the hub's REST API as its pages make it."""
        return self._fetch(method, path, self._xsrf("/hub/"), **options)

    # --- the Jupyter server ---

    def kernel_specs(self) -> dict[str, str]:
        """Display name by spec name: the launcher's cards."""
        answer = self.server_fetch("GET", "api/kernelspecs").json()
        return {name: spec["spec"]["display_name"] for name, spec in answer["kernelspecs"].items()}

    def open_notebook(self, path: str) -> dict[str, Any]:
        """The notebook file's content."""
        content: dict[str, Any] = self.server_fetch("GET", f"api/contents/{quote(path)}").json()["content"]
        return content

    def start_kernel(self, spec: str, path: str) -> dict[str, Any]:
        """Starts a notebook's kernel; returns the session. Raises Refused with the text of Lab's dialog."""
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": spec}}
        session: dict[str, Any] = self.server_fetch("POST", "api/sessions", json=body).json()
        return session

    def sessions(self) -> list[dict[str, Any]]:
        return list(self.server_fetch("GET", "api/sessions").json())

    def restart_kernel(self, kernel_id: str) -> None:
        self.server_fetch("POST", f"api/kernels/{kernel_id}/restart")

    def end_session(self, session_id: str) -> None:
        """ "Shut down kernel": the session and its kernel end."""
        self.server_fetch("DELETE", f"api/sessions/{session_id}")

    def channel(self, kernel_id: str) -> KernelChannel:
        """Opens the kernel's websocket through the proxy."""
        path = f"/user/{self.name}/api/kernels/{kernel_id}/channels"
        origin = urlsplit(self.url)
        return KernelChannel(f"ws://{origin.netloc}{path}", self._cookie_header(path), self.url)

    def server_fetch(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A call of the Jupyter server's REST API as its JavaScript makes it."""
        prefix = f"/user/{self.name}/"
        return self._fetch(method, prefix + path, self._xsrf(prefix), **options)

    # --- what a browser does by itself ---

    def _visit(self, path: str) -> httpx.Response:
        return self._http.get(path, headers=NAVIGATE)

    def _fetch(self, method: str, path: str, xsrf: str, **options: Any) -> httpx.Response:
        answer = self._http.request(method, path, headers={**FETCH, "X-XSRFToken": xsrf}, **options)
        if answer.is_error:
            raise Refused(answer.status_code, _message_of(answer))
        return answer

    def _xsrf(self, path: str) -> str:
        for cookie in self._http.cookies.jar:
            if cookie.name == "_xsrf" and cookie.path == path:
                return cookie.value or ""
        raise Refused(403, f"no XSRF cookie for {path}: not logged in there")

    def _cookie_header(self, path: str) -> str:
        cookies = [cookie for cookie in self._http.cookies.jar if path.startswith(cookie.path)]
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in cookies)


def _hidden_xsrf(page: str) -> str:
    found = re.search(r'name="_xsrf" value="([^"]+)"', page)
    if found is None:
        raise Refused(500, "the login page has no form")
    return found[1]


def _error_on(page: str) -> str:
    """The error text of one of the hub's pages."""
    marks = r'class="(?:login_error|[^"]*alert-danger|error)"'
    found = re.search(marks + r"[^>]*>(.*?)</(?:p|div)>", page, re.DOTALL)
    if found is None:
        return "refused without a text"
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", found[1]).split()))


def _message_of(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500]
