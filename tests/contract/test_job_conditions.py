from __future__ import annotations

import pytest

from tests.waiting import until, until_equal

from .kube import MERGE, condition, gone, holds, job, refusal

ENDS = {"BED_RUN_SECONDS": "0"}
FAILS = {**ENDS, "BED_EXIT_CODE": "1"}


@pytest.fixture
def run(kube, ns):
    """Create a job, and look at it and its pods."""

    class Run:
        def create(self, *args, **kwargs):
            return kube.batch.create_namespaced_job(ns, job("run", *args, **kwargs))

        def read(self):
            return kube.batch.read_namespaced_job("run", ns)

        def pods(self):
            return kube.core.list_namespaced_pod(ns, label_selector="job-name=run").items

        def patch(self, spec):
            return kube.batch.patch_namespaced_job("run", ns, {"spec": spec}, _content_type=MERGE)

        def until(self, kind, seconds=30):
            def look():
                seen = self.read()
                return holds(seen, kind) and seen

            return until(look, seconds=seconds)

        def events(self):
            selector = "involvedObject.kind=Job,involvedObject.name=run"
            found = kube.core.list_namespaced_event(ns, field_selector=selector).items
            return {item.reason: item for item in found}

    return Run()


def said(seen, kind):
    found = condition(seen, kind)
    return found.status, found.reason, found.message


def test_a_running_job_counts_active_and_ready(run):
    run.create()

    def counts():
        status = run.read().status
        return status.active, status.ready, status.succeeded, status.failed

    until_equal(counts, (1, 1, None, None))
    seen = run.read()
    assert seen.status.start_time
    assert seen.status.completion_time is None
    assert seen.status.conditions is None


def test_a_new_job_gets_its_defaults(run):
    spec = run.create(suspend=True).spec
    assert (spec.parallelism, spec.completions, spec.completion_mode) == (1, 1, "NonIndexed")
    assert spec.suspend is True
    assert spec.pod_replacement_policy == "TerminatingOrFailed"


def test_pods_of_a_job_carry_its_labels_owner_and_finalizer(run):
    made = run.create()
    (pod,) = until(run.pods)
    uid = made.metadata.uid
    wanted = {
        "batch.kubernetes.io/job-name": "run",
        "batch.kubernetes.io/controller-uid": uid,
        "job-name": "run",
        "controller-uid": uid,
    }
    assert wanted.items() <= pod.metadata.labels.items()
    (owner,) = pod.metadata.owner_references
    assert (owner.kind, owner.api_version, owner.uid) == ("Job", "batch/v1", uid)
    assert (owner.controller, owner.block_owner_deletion) == (True, True)
    assert pod.metadata.finalizers == ["batch.kubernetes.io/job-tracking"]
    assert pod.metadata.name.startswith("run-")
    assert made.spec.selector.match_labels == {"batch.kubernetes.io/controller-uid": uid}


def test_a_job_that_ends_well_is_complete_and_its_pods_stay_without_their_finalizer(run):
    run.create(ENDS)
    seen = run.until("Complete")
    reached = "Reached expected number of succeeded pods"
    assert said(seen, "SuccessCriteriaMet") == ("True", "CompletionsReached", reached)
    assert said(seen, "Complete") == ("True", "CompletionsReached", reached)
    assert (seen.status.succeeded, seen.status.active, seen.status.failed) == (1, None, None)
    assert seen.status.completion_time >= seen.status.start_time
    assert condition(seen, "Failed") is None
    (pod,) = run.pods()
    assert pod.status.phase == "Succeeded"
    assert pod.metadata.finalizers is None
    assert pod.metadata.labels["batch.kubernetes.io/job-name"] == "run"
    until(lambda: {"SuccessfulCreate", "Completed"} <= set(run.events()))
    created = run.events()["SuccessfulCreate"]
    assert created.message == f"Created pod: {pod.metadata.name}"
    assert (created.type, created.source.component) == ("Normal", "job-controller")
    assert run.events()["Completed"].message == "Job completed"


def test_a_job_without_retries_fails_with_its_pod(run):
    run.create(FAILS)
    seen = run.until("Failed")
    limit = "Job has reached the specified backoff limit"
    assert said(seen, "FailureTarget") == ("True", "BackoffLimitExceeded", limit)
    assert said(seen, "Failed") == ("True", "BackoffLimitExceeded", limit)
    assert (seen.status.failed, seen.status.succeeded, seen.status.completion_time) == (1, None, None)
    until(lambda: "BackoffLimitExceeded" in run.events())


def rule(action, **on):
    return {"podFailurePolicy": {"rules": [{"action": action, **on}]}}


def exit_codes(*values, operator="In", **more):
    return {"onExitCodes": {"operator": operator, "values": list(values), **more}}


def test_a_policy_fails_the_job_on_an_exit_code(run):
    run.create({**ENDS, "BED_EXIT_CODE": "42"}, backoffLimit=5, **rule("FailJob", **exit_codes(42)))
    seen = run.until("Failed")
    (pod,) = run.pods()
    message = (
        f"Container main for pod {pod.metadata.namespace}/{pod.metadata.name} failed with exit code 42 "
        "matching FailJob rule at index 0"
    )
    assert said(seen, "FailureTarget") == ("True", "PodFailurePolicy", message)
    assert said(seen, "Failed") == ("True", "PodFailurePolicy", message)
    assert seen.spec.pod_replacement_policy == "Failed"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (exit_codes(42), "BackoffLimitExceeded"),
        (exit_codes(42, operator="NotIn"), "PodFailurePolicy"),
        (exit_codes(1, containerName="main"), "PodFailurePolicy"),
    ],
    ids=["other-code", "not-in", "this-container"],
)
def test_the_first_rule_that_matches_decides(run, rules, reason):
    run.create(FAILS, **rule("FailJob", **rules))
    assert condition(run.until("Failed"), "Failed").reason == reason


def test_an_evicted_pod_without_a_policy_uses_the_only_try(kube, ns, run):
    run.create()
    (first,) = until(run.pods)
    until(lambda: run.pods()[0].status.phase == "Running")
    body = {"metadata": {"name": first.metadata.name}}
    kube.core.create_namespaced_pod_eviction(first.metadata.name, ns, body)
    assert condition(run.until("Failed"), "Failed").reason == "BackoffLimitExceeded"


def test_a_deadline_ends_the_job_and_its_pods(run):
    run.create(activeDeadlineSeconds=1)
    seen = run.until("Failed")
    late = "Job was active longer than specified deadline"
    assert said(seen, "FailureTarget") == ("True", "DeadlineExceeded", late)
    assert said(seen, "Failed") == ("True", "DeadlineExceeded", late)
    assert run.pods() == []
    until(lambda: "DeadlineExceeded" in run.events())


def test_a_suspended_job_has_no_pods_until_it_resumes(run):
    run.create(ENDS, suspend=True)
    seen = run.until("Suspended")
    assert said(seen, "Suspended") == ("True", "JobSuspended", "Job suspended")
    assert seen.status.start_time is None
    assert run.pods() == []
    run.patch({"suspend": False})
    seen = run.until("Complete")
    assert said(seen, "Suspended") == ("False", "JobResumed", "Job resumed")
    assert seen.status.start_time
    assert {"Suspended", "Resumed"} <= set(until(lambda: len(run.events()) > 3 and run.events()))


def test_suspending_a_running_job_takes_its_pods(run):
    run.create()
    until(lambda: run.read().status.ready)
    run.patch({"suspend": True})
    run.until("Suspended")
    until(lambda: not run.pods())
    until(lambda: not run.read().status.active)
    assert run.read().status.start_time is None
    assert not run.read().status.failed
    run.patch({"suspend": False})
    until(lambda: run.read().status.active)


def test_a_suspended_job_may_change_where_it_runs(run):
    run.create(suspend=True)
    run.until("Suspended")
    seen = run.patch({"template": {"spec": {"nodeSelector": {"contract/nowhere": "yes"}}}})
    assert seen.spec.template.spec.node_selector == {"contract/nowhere": "yes"}


def test_a_finished_job_is_deleted_after_its_time_to_live(kube, ns, run):
    run.create(ENDS, ttlSecondsAfterFinished=1)
    until(gone(kube.batch.read_namespaced_job, "run", ns))
    until(lambda: not run.pods())


def test_parallel_pods_all_have_to_succeed(run):
    run.create(ENDS, completions=3, parallelism=2)
    seen = run.until("Complete")
    assert seen.status.succeeded == 3
    assert len(run.pods()) == 3


INDEX = "batch.kubernetes.io/job-completion-index"


def test_numbered_pods_have_their_number_and_a_name_that_stays(run):
    run.create({"BED_RUN_SECONDS": "600"}, completions=3, parallelism=3, completionMode="Indexed")
    until_equal(lambda: len(run.pods()), 3)
    pods = sorted(run.pods(), key=lambda pod: pod.metadata.annotations[INDEX])
    assert [pod.metadata.annotations[INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod.metadata.labels[INDEX] for pod in pods] == ["0", "1", "2"]
    assert [pod.spec.hostname for pod in pods] == ["run-0", "run-1", "run-2"]
    for pod in pods:
        number = {env.name: env for env in pod.spec.containers[0].env}["JOB_COMPLETION_INDEX"]
        assert number.value_from.field_ref.field_path == f"metadata.labels['{INDEX}']"
        assert pod.metadata.name.startswith(f"{pod.spec.hostname}-")


def test_each_number_has_to_succeed_once(run):
    run.create(ENDS, completions=4, parallelism=2, completionMode="Indexed")
    seen = run.until("Complete")
    assert (seen.status.succeeded, seen.status.completed_indexes) == (4, "0-3")
    assert sorted(pod.metadata.annotations[INDEX] for pod in run.pods()) == ["0", "1", "2", "3"]


def test_one_numbered_pod_that_fails_ends_all(run):
    run.create(FAILS, completions=2, parallelism=2, completionMode="Indexed", backoffLimit=0)
    seen = run.until("Failed")
    assert condition(seen, "Failed").reason == "BackoffLimitExceeded"
    assert seen.status.completed_indexes in {None, ""}


@pytest.mark.parametrize(
    ("name", "count", "field"), [("run", None, "spec.completions"), ("a" * 62, 10, "metadata.name")]
)
def test_numbered_pods_need_a_count_and_a_name_for_the_last_host(kube, ns, name, count, field):
    asked = job(name, completionMode="Indexed", completions=count, parallelism=2)
    status = refusal(kube.batch.create_namespaced_job, ns, asked)
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert field in {cause["field"] for cause in status["details"]["causes"]}
