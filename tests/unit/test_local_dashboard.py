"""What the dashboard's answers mean."""

import http.server
import threading
from types import SimpleNamespace

import pytest

from driver.errors import DriverError
from driver.local import job
from driver.local.dashboard import Dashboard, JobState
from driver.local.job import Job


@pytest.fixture
def server():
    """An HTTP server that answers with `code` and `body`."""
    says = SimpleNamespace(code=200, body="{}", dashboard=None)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(says.code)
            self.end_headers()
            self.wfile.write(says.body.encode())

        def log_message(self, *_): ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        says.dashboard = Dashboard(f"http://127.0.0.1:{httpd.server_port}", "secret")
        yield says
        httpd.shutdown()


def test_an_answer_is_the_jobs_state(server):
    server.body = '{"status": "RUNNING", "message": null}'
    assert server.dashboard.job_state("demo") == JobState("RUNNING", "")
    assert server.dashboard.trouble == ""


@pytest.mark.parametrize(("code", "body", "trouble"), [(500, "{}", "HTTP 500"), (200, "<html>", "Expecting value")])
def test_a_dashboard_that_cannot_tell_is_not_there_yet(server, code, body, trouble):
    server.code, server.body = code, body
    assert server.dashboard.job_state("demo") is None
    assert server.dashboard.nodes() == []
    assert trouble in server.dashboard.trouble


@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_token_is_an_error_at_once(server, code):
    server.code = code
    with pytest.raises(DriverError, match=f"refuses its cluster's token .HTTP {code}"):
        server.dashboard.nodes()


def test_a_job_of_which_nothing_is_heard_is_given_up(server, monkeypatch, tmp_path):
    now = [0.0]
    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: now[0]))
    process = SimpleNamespace(poll=lambda: 0, returncode=0)
    monkeypatch.setattr(job, "subprocess", SimpleNamespace(Popen=lambda *_, **__: process, PIPE=0, DEVNULL=0, STDOUT=0))
    hosts = SimpleNamespace(dashboard=server.dashboard, python=tmp_path / "bin" / "python", authentication={})
    submission = Job(hosts, SimpleNamespace(job={"runtimeEnvYAML": "{}", "entrypoint": "python"}), tmp_path, "demo")  # type: ignore[arg-type]
    server.code = 503
    now[0] = 299.0
    assert submission.state() is None
    server.code, server.body = 200, '{"status": "RUNNING"}'
    assert submission.state() == JobState("RUNNING", "")
    server.code = 503
    now[0] = 590.0
    assert submission.state() is None
    now[0] = 600.0
    with pytest.raises(DriverError, match="nothing of the job for 300 s: HTTP 503"):
        submission.state()
