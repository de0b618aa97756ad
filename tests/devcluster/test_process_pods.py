"""Pods as real processes: commands, environment, exit codes, logs, signals, memory, probes, volumes."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import threading

import pytest
from devcluster_bed import RefusedError

from tests.waiting import until
from workloads.pods.pod_status import judge
from workloads.podspec.git_source import fetch_containers
from workloads.podspec.model_source import check_container
from workloads.podspec.specs import GitSource

FALL_BACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}


def test_a_command_runs_and_its_output_is_the_log(space):
    space.python("print('one'); print('two')")
    assert (space.ended()["exitCode"], space.ended()["reason"]) == (0, "Completed")
    assert space.log() == "one\ntwo\n"
    assert space.log(query="tailLines=1") == "two\n"
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z one", space.log(query="timestamps=true").splitlines()[0]
    )
    assert space.pod()["status"]["podIP"].startswith("127.")


def test_an_exit_code_is_reported(space):
    space.python("import sys; print('no', file=sys.stderr); sys.exit(7)")
    assert (space.ended()["exitCode"], space.ended()["reason"]) == (7, "Error")
    assert space.log() == "no\n"


def test_the_last_words_of_what_failed_stay_in_its_status(space):
    code = "import sys; [print('line', n) for n in range(200)]; print('no model'); sys.exit(1)"
    space.python(code, **FALL_BACK)
    said = space.ended()["message"].splitlines()
    assert (said[-1], len(said)) == ("no model", 80)
    space.python("print('bye'); raise SystemExit(1)", name="silent")
    assert "message" not in space.ended("silent")


def test_a_signal_is_128_and_its_number(space):
    space.python("import os; os.kill(os.getpid(), 11)")
    assert space.ended()["exitCode"] == 139


def test_an_absent_command_cannot_start(space):
    space.run("no-such-command")
    ended = space.ended()
    assert (ended["exitCode"], ended["reason"], ended["startedAt"]) == (
        128,
        "StartError",
        "1970-01-01T00:00:00Z",
    )
    assert ended["message"].startswith("failed to create containerd task: ")
    assert 'exec: "no-such-command": executable file not found in $PATH' in ended["message"]
    assert space.log() == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/no/such/file", "stat /no/such/file: no such file or directory"),
        ("{folder}/data", "permission denied"),
        ("{folder}", "is a directory"),
    ],
)
def test_what_cannot_be_executed_says_why(space, tmp_path, command, said):
    data = tmp_path / "data"
    data.touch(mode=0o644)
    space.run(command.format(folder=tmp_path))
    assert (space.ended()["reason"], said in space.ended()["message"]) == ("StartError", True)


def test_the_environment_is_empty_but_for_what_is_asked(space):
    space.create("secrets", {"metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
    env = [
        {"name": "PLAIN", "value": "x"},
        {"name": "JOINED", "value": "$(PLAIN)/$(ABSENT)/$$(PLAIN)"},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "key"}}},
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    space.python("import os, json; print(json.dumps(dict(os.environ)))", env=env)
    space.ended()
    seen = json.loads(space.log())
    address = space.pod()["status"]["podIP"]
    assert {k: seen.pop(k) for k in ("PLAIN", "JOINED", "SECRET", "WHERE", "NAME")} == {
        "PLAIN": "x", "JOINED": "x/$(ABSENT)/$(PLAIN)", "SECRET": "hidden", "WHERE": address, "NAME": "p",
    }  # fmt: skip
    assert set(seen) <= {"PATH", "HOME", "HOSTNAME", "LC_CTYPE"}


def test_an_absent_secret_holds_the_container(space):
    env = [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "late", "key": "k"}}}]
    space.python("import os; print(os.environ['S'])", env=env)
    waiting = until(
        lambda: (
            space.state().get("waiting", {}).get("reason") == "CreateContainerConfigError" and space.state()
        )
    )
    assert waiting["waiting"]["message"] == 'secret "late" not found'
    space.create("secrets", {"metadata": {"name": "late"}, "data": {"k": base64.b64encode(b"came").decode()}})
    space.ended()
    assert space.log() == "came\n"


def test_volumes_are_folders_and_their_paths_are_rewritten(space):
    space.create("configmaps", {"metadata": {"name": "c"}, "data": {"train.txt": "3"}})
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    space.create("persistentvolumeclaims", {"metadata": {"name": "kept"}, "spec": claim})
    volumes = [
        {"name": "conf", "configMap": {"name": "c"}},
        {"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}},
    ]
    mounts = [{"name": "conf", "mountPath": "/conf"}, {"name": "kept", "mountPath": "/checkpoints"}]
    env = [{"name": "OUT", "value": "/checkpoints/last"}]
    code = "import os; open(os.environ['OUT'], 'w').write(open('/conf/train.txt').read() + '!')"
    space.python(code, name="writes", env=env, volumeMounts=mounts, spec={"volumes": volumes})
    assert space.ended("writes")["exitCode"] == 0, space.log("writes")
    space.python(
        "print(open('/checkpoints/last').read())",
        name="reads",
        volumeMounts=mounts[1:],
        spec={"volumes": volumes[1:]},
    )
    assert space.ended("reads")["exitCode"] == 0, space.log("reads")
    assert space.log("reads") == "3!\n"


def test_a_log_is_followed_to_the_end(space):
    space.python("import sys\nfor line in open(0 if False else '/in/x'): print(line, end='')\nimport time\nprint('then')\n"
                 "import os\nwhile not os.path.exists('/in/go'): time.sleep(.02)\nprint('end')",
                 volumeMounts=[{"name": "in", "mountPath": "/in"}],
                 spec={"volumes": [{"name": "in", "configMap": {"name": "in"}}]})  # fmt: skip
    space.create("configmaps", {"metadata": {"name": "in"}, "data": {"x": "first\n"}})
    space.running()
    uid = space.pod()["metadata"]["uid"]
    with space.cluster.open("GET", f"{space.core}/pods/p/log?follow=true") as stream:
        assert stream.readline() == b"first\n"
        assert stream.readline() == b"then\n"
        (space.cluster.folder / "data/pods" / uid / "volumes/in/go").touch()
        assert stream.read() == b"end\n"


def test_deletion_asks_first(space):
    code = "import signal, sys, time\nsignal.signal(15, lambda *_: (print('saving'), sys.exit(0)))\nprint('up')\nwhile True: time.sleep(1)"
    space.python(code)
    until(lambda: "up" in space.log())
    seen: list[bytes] = []
    with space.cluster.open("GET", f"{space.core}/pods/p/log?follow=true") as stream:
        reader = threading.Thread(target=lambda: seen.append(stream.read()))
        reader.start()
        answer = space.cluster.call("DELETE", f"{space.core}/pods/p")
        assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
        reader.join(30)
    assert seen == [b"up\nsaving\n"]
    until(space.gone)


def test_grace_ends_in_a_kill(space):
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\nwhile True: time.sleep(1)"
    space.python(code, spec={"terminationGracePeriodSeconds": 1})
    until(lambda: "up" in space.log())
    space.cluster.call("DELETE", f"{space.core}/pods/p")
    assert not space.gone()
    until(space.gone)


def test_more_memory_than_the_limit_is_oom_killed(space):
    space.python(
        "x = bytearray(300 << 20)\nx[::4096] = b'1' * len(x[::4096])\nimport time\ntime.sleep(60)",
        resources={"limits": {"memory": "100Mi"}},
    )
    assert (space.ended()["exitCode"], space.ended()["reason"]) == (137, "OOMKilled")


def test_init_containers_come_first(space):
    mounts = [{"name": "v", "mountPath": "/v"}]
    init = {
        "name": "init",
        "image": "any",
        "command": ["python", "-c", "open('/v/f','w').write('ready')"],
        "volumeMounts": mounts,
    }
    space.python(
        "print(open('/v/f').read())",
        volumeMounts=mounts,
        spec={"initContainers": [init], "volumes": [{"name": "v"}]},
    )
    space.ended()
    assert space.log() == "ready\n"
    assert space.pod()["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_failing_container_restarts_with_a_pause(space):
    space.python("raise SystemExit(1)", spec={"restartPolicy": "Always"})
    until(lambda: space.pod()["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2)
    assert "BackOff" in space.reasons()


SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (self.path + ' ' + str(self.headers.get('Authorization'))).encode()
        self.send_response(200 if self.path != '/broken' else 500); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(201); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(('0.0.0.0', 8080), Handler).serve_forever()
"""


def test_two_servers_on_one_port_answer_through_the_proxy(space):
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}
    for name in ("one", "two"):
        space.python(SERVER, name=name, readinessProbe=probe, startupProbe=probe)
        service = {
            "metadata": {"name": name},
            "spec": {"selector": {"run": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        }
        space.create("services", service)
    for name in ("one", "two"):
        space.ready(name)
        path = f"{space.core}/services/{name}:http/proxy/v2/{name}?q=1"
        # The API server's own credentials stay with it.
        assert space.cluster.text(path) == f"/v2/{name}?q=1 None"
    with space.cluster.open("POST", f"{space.core}/pods/one:8080/proxy/x", body={"a": 1}) as answer:
        assert (answer.status, json.load(answer)) == (201, {"a": 1})


def test_a_service_without_ready_pods_is_unavailable(space):
    space.create(
        "services",
        {"metadata": {"name": "idle"}, "spec": {"selector": {"run": "none"}, "ports": [{"port": 80}]}},
    )
    with pytest.raises(RefusedError) as caught:
        space.cluster.call("GET", f"{space.core}/services/idle:80/proxy/")
    assert (caught.value.status["code"], caught.value.status["reason"]) == (503, "ServiceUnavailable")


def test_a_failing_liveness_probe_restarts_the_container(space):
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 5}
    space.run("sleep", "1000", livenessProbe=probe, spec={"restartPolicy": "Always"})
    until(lambda: space.pod()["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 1)
    assert {"Unhealthy", "Killing"} <= space.reasons()


def test_a_job_really_trains(space):
    code = (
        "from sklearn.datasets import load_digits\nfrom sklearn.linear_model import SGDClassifier\n"
        "x, y = load_digits(return_X_y=True)\nm = SGDClassifier(random_state=0).fit(x, y)\nprint('accuracy', m.score(x, y) > 0.9)"
    )
    main = {"name": "main", "image": "any", "command": ["python", "-c", code]}
    job = {
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [main]}}},
    }
    space.create("jobs", job, "batch")
    path = f"/apis/batch/v1/namespaces/{space.name}/jobs/train"
    until(lambda: space.cluster.call("GET", path)["status"].get("completionTime"), 120)
    (pod,) = space.cluster.call("GET", f"{space.core}/pods?labelSelector=job-name=train")["items"]
    assert space.log(pod["metadata"]["name"]) == "accuracy True\n"


RENDEZVOUS = """
import os, socket
rank, port = int(os.environ["JOB_COMPLETION_INDEX"]), int(os.environ["PORT"])
if rank == 0:
    with socket.create_server((os.environ["SELF"], port)) as server:
        peer, _ = server.accept()
        total = int(peer.recv(64)) + 1
        peer.sendall(str(total).encode())
else:
    with socket.create_connection((os.environ["FIRST"], port)) as first:
        first.sendall(b"2")
        total = int(first.recv(64))
print("rank", rank, "total", total)
"""


def test_numbered_pods_of_a_job_find_each_other_by_name(space):
    """Both listen and connect on the same port; the second waits for the first one's name to resolve."""
    env = [
        {"name": "PORT", "value": "29500"},
        {"name": "SELF", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "FIRST", "value": "gang-0.gang"},
        {"name": "OTHER", "value": "train.py gang-0.elsewhere"},
    ]
    retry = "import time\nfor _ in range(600):\n    try:\n        exec(CODE)\n        break\n    except ConnectionRefusedError:\n        time.sleep(0.05)\n"
    code = f"CODE = {RENDEZVOUS!r}\n{retry}"
    main = {"name": "main", "image": "any", "command": ["python", "-c", code], "env": env}
    template = {"restartPolicy": "Never", "subdomain": "gang", "containers": [main]}
    job = {
        "metadata": {"name": "gang"},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": {"spec": template},
        },
    }
    space.create("jobs", job, "batch")
    until(
        lambda: len(space.cluster.call("GET", f"{space.core}/pods?labelSelector=job-name=gang")["items"]) == 2
    )
    headless = {"clusterIP": "None", "selector": {"job-name": "gang"}, "ports": [{"port": 29500}]}
    space.create("services", {"metadata": {"name": "gang"}, "spec": headless})
    path = f"/apis/batch/v1/namespaces/{space.name}/jobs/gang"
    until(lambda: space.cluster.call("GET", path)["status"].get("completionTime"), 120)
    pods = space.cluster.call("GET", f"{space.core}/pods?labelSelector=job-name=gang")["items"]
    assert sorted(space.log(pod["metadata"]["name"]) for pod in pods) == [
        "rank 0 total 3\n",
        "rank 1 total 3\n",
    ]


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_init_containers_fetch_a_repository_with_the_git_of_this_machine(space, tmp_path):
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    config = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "hello.py").write_text("print('from git')")
    for words in (["init", "-q"], ["add", "hello.py"], [*config, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, env=plain, check=True)
    mount = {"name": "source", "mountPath": "/workspace"}
    git = GitSource(f"file://{tmp_path}")
    inits = fetch_containers(git, image="alpine/git", mount=mount, common={})
    for each in inits:
        # A repository of this machine stands for one that is served.
        each["env"].append({"name": "GIT_ALLOW_PROTOCOL", "value": "file"})
    spec = {"initContainers": inits, "volumes": [{"name": "source", "emptyDir": {}}]}
    space.run("python", "hello.py", spec=spec, volumeMounts=[mount], workingDir="/workspace")
    assert space.ended()["exitCode"] == 0
    assert space.log() == "from git\n"


def looks_for(space, name, *files):
    """A pod that restarts always, whose model is a folder with these files; it is looked for by the portal's container."""
    mount = {"name": "models", "mountPath": "/models"}
    check = check_container(["/models/bert.mar", "/models/digits.mar"], image="any:1", common=FALL_BACK)
    inits = [
        {"name": "put", "image": "any:1", "command": ["touch", *(f"/models/{file}" for file in files)]},
        check,
    ]
    spec = {
        "restartPolicy": "Always",
        "initContainers": [{**each, "volumeMounts": [mount]} for each in inits],
        "volumes": [{"name": "models", "emptyDir": {}}],
    }
    space.run("python", "-c", "import time; time.sleep(600)", name=name, spec=spec, volumeMounts=[mount])


def test_a_model_that_is_not_there_is_told_by_its_name_before_the_server_starts(space):
    looks_for(space, "absent", "bert.mar")

    def told():
        verdict = judge(space.pod("absent"))
        return verdict.reason == "Restarting" and verdict

    verdict = until(told)
    assert "is not where model.path says" in verdict.message
    assert "digits.mar" in verdict.message
    assert verdict.message.count("No such file") == 1
    assert "running" not in space.state("absent")


def test_a_model_that_is_there_lets_the_server_start(space):
    looks_for(space, "there", "bert.mar", "digits.mar")
    space.running("there")
