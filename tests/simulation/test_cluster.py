"""A Dask cluster as a user starts it: a scheduler and two workers from the command line, on loopback."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from distributed import Client
from loky.process_executor import ShutdownExecutorError

import pymc_kbr as pk
from pymc_kbr.simulation.workers import executors
from tests import models
from tests.models import model, same, table

ROOT = Path(__file__).parents[2]


WITHOUT = ("numpy", "scipy", "pymc", "pytensor", "pymc_kbr")
SCHEDULER = f"""
import sys
sys.modules.update(dict.fromkeys({WITHOUT}))  # as on a machine that has `distributed` alone
from distributed.cli.dask_scheduler import main
main(["--host", "tcp://127.0.0.1:0", "--scheduler-file", "scheduler.json", "--no-dashboard"])
"""


class Cluster:
    """Processes of `dask scheduler` and `dask worker`."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.scheduler, self.workers = self.process("-c", SCHEDULER), []
        file, deadline = folder / "scheduler.json", time.monotonic() + 60
        while not (file.exists() and file.read_text().endswith("}")) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.address = json.loads(file.read_text())["address"]

    def process(self, *command):
        made = subprocess.Popen(
            [sys.executable, *map(str, command)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(made)
        return made

    def begin_workers(self):
        for name in range(2):
            how = ("--nthreads", 1, "--no-nanny", "--host", "127.0.0.1", "--name", name, "--no-dashboard")
            self.workers.append(self.process("-m", "dask", "worker", self.address, *how))

    def client(self):
        return Client(self.address, timeout=60, set_as_default=False)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


def slow(rng, mean, scale, size=None):
    time.sleep(0.01)
    return models.normal_by_hand(rng, mean, scale, size)


def when_begun(store, action, rows=20):
    """Do something in a thread once a store has some rows."""

    def wait():
        while not store.exists() or len(pk.StoredTable.open(store)) < rows:
            time.sleep(0.05)
        action()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_cluster_from_its_first_worker_to_its_loss(tmp_path, monkeypatch):
    """One test, because each process takes seconds to start."""
    mine = tmp_path / "mine"  # workers run in the folder above
    mine.mkdir()
    (mine / "only_here.py").write_text("def fn(rng, m, s, size=None):\n    return rng.normal(m, s, size)\n")
    monkeypatch.syspath_prepend(mine)
    cluster = Cluster(tmp_path)
    try:
        with cluster.client() as client:
            without_a_worker_it_is_waited_for_with_words(cluster, client)
            what_it_cannot_do_is_refused(client)
            a_run_ends_complete_though_a_worker_is_killed_half_way(cluster, client, tmp_path)
        its_loss_is_named_and_the_store_keeps_its_rows(cluster, tmp_path)
    finally:
        cluster.end()


def without_a_worker_it_is_waited_for_with_words(cluster, client):
    starter = threading.Timer(1, cluster.begin_workers)
    starter.start()
    with pytest.warns(UserWarning, match=r"cluster at tcp://\S+ has no worker; simulations wait"):
        made = table(2500, model(), executor=client)  # batches
    starter.join()
    same(made, table(2500, model()))


def what_it_cannot_do_is_refused(client):
    import only_here

    with pytest.raises(RuntimeError, match=r"cannot import what .*need .*only_here.*install it"):
        table(50, model(only_here.fn), executor=client, batched=False)
    with pytest.raises(ValueError, match=r"runs its tasks in threads, which cannot be interrupted"):
        table(50, model(slow), executor=client, timeout=1.0)


def a_run_ends_complete_though_a_worker_is_killed_half_way(cluster, client, folder):
    draws, store = 400, folder / "table.zarr"
    client.wait_for_workers(2, timeout=60)
    killer = when_begun(store, lambda: cluster.workers[0].send_signal(signal.SIGKILL), draws // 4)
    there = table(draws, model(slow), executor=client, store=store)
    killer.join(timeout=60)
    assert cluster.workers[0].poll() == -signal.SIGKILL
    assert len(client.nthreads()) == 1
    same(table(draws, model(models.normal_by_hand)), there)  # the same numbers, without the waiting


def its_loss_is_named_and_the_store_keeps_its_rows(cluster, folder):
    made, plain = model(slow), model(models.normal_by_hand)

    losses = [
        (lambda client: client.close(), r"the Dask client was closed while \d+ chunk"),
        (lambda _: cluster.scheduler.kill(), r"the Dask scheduler at tcp://\S+ was lost while \d+"),
    ]
    first = cluster.client()
    clients = [first, cluster.client()]
    for number, (client, (lose, words)) in enumerate(zip(clients, losses, strict=True)):
        store = folder / f"{number}.zarr"
        thread = when_begun(store, lambda lose=lose, client=client: lose(client))
        with pytest.raises(RuntimeError, match=words) as raised:
            table(400, made, executor=client, store=store)
        thread.join(timeout=60)
        assert "crashed" not in str(raised.value)
        assert f"are in the store {store}" in str(raised.value)
        assert len(pk.StoredTable.open(store)) >= 20
    with pytest.raises(ValueError, match=r"takes no work .*make another one"):
        table(50, made, executor=first)
    with pytest.warns(UserWarning, match=r"the code of 'y' is another.*the same"):  # without the waiting
        same(table(400, plain, store=store), table(400, plain))
    clients[-1].close()


def test_a_pool_of_processes_that_breaks_says_what_it_ran_and_how_it_ended(tmp_path):
    def killed(rng, mean, scale, size=None):
        if mean > 2.9:
            os.kill(os.getpid(), signal.SIGKILL)
        return models.normal_by_hand(rng, mean, scale, size)

    from loky import ProcessPoolExecutor

    store = tmp_path / "table.zarr"
    words = (
        r"died \(SIGKILL\(-9\), as the system does when memory runs out\), and the executor with it, "
        r"while \d+ chunk\(s\) were under way, rows \d+ to \d+.*cores=2"
    )
    with ProcessPoolExecutor(1) as executor, pytest.raises(RuntimeError, match=words):
        table(1500, model(killed), executor=executor, store=store)
    kept = pk.StoredTable.open(store)
    assert len(kept) + kept.unfinished == 1500
    whole = table(1500, model(models.normal_by_hand))
    finished = kept.statistics[0 : len(kept)]
    assert np.isin(finished[:, 0], whole.statistics[:, 0]).all()


class Stops(concurrent.futures.ThreadPoolExecutor):
    """Is shut down by itself after some tasks."""

    def __init__(self, tasks, **options):
        super().__init__(1, **options)
        self.tasks = tasks

    def submit(self, *arguments):
        self.tasks -= 1
        if self.tasks < 0:
            self.shutdown(wait=False, cancel_futures=True)
        return super().submit(*arguments)


class KillsItsWorkers(Stops):
    """As one of loky that is shut down with `kill_workers=True`."""

    def submit(self, *arguments):
        self.tasks -= 1
        if self.tasks >= 0:
            return concurrent.futures.ThreadPoolExecutor.submit(self, *arguments)
        future = concurrent.futures.Future()
        future.set_exception(ShutdownExecutorError("the executor was shutdown"))
        return future


def no_start():
    raise ArithmeticError("no start")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Stops(3), r"executor (cancelled its work|takes no more work).* shut ?down"),
        (lambda: KillsItsWorkers(3), r"takes no more work \(ShutdownExecutorError.* while \d+ chunk"),
        (lambda: Stops(9, initializer=no_start), r"threads did not start|takes no work .*initializer failed"),
    ],
)
def test_an_executor_that_ends_is_no_simulator_that_crashes(made, words, set_default):
    set_default(executors.rows_a_chunk, most_rows=2)
    with made() as executor, pytest.raises((RuntimeError, ValueError), match=words) as raised:
        table(200, model(slow), executor=executor)
    assert "crashed" not in str(raised.value)
    assert isinstance(raised.value, ValueError) or "finished are lost; with store=" in str(raised.value)


def test_an_executor_that_is_shut_down_is_refused_before_any_work():
    calls = []

    def counts(rng, mean, scale, size=None):
        calls.append(mean)
        return models.normal_by_hand(rng, mean, scale, size)

    executor = concurrent.futures.ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(ValueError, match=r"takes no work .*after shutdown.*make another one"):
        table(50, model(counts), executor=executor)

    class OfWorkers:
        def get_client(self):
            raise AssertionError

    with pytest.raises(TypeError, match=r"give .*Client: Client\(cluster\) where this is a cluster"):
        table(50, model(counts), executor=OfWorkers())

    class Sends:
        def submit(self, *arguments):
            return "a receipt"

    with pytest.raises(
        TypeError, match=r"submit returned str, no future; give a concurrent.futures.Executor"
    ):
        table(50, model(counts), executor=Sends())
    assert not calls


@pytest.mark.parametrize("given", ["threads", 2, concurrent.futures.ThreadPoolExecutor])
def test_what_is_no_executor_is_refused(given):
    with pytest.raises(TypeError, match=r"give a concurrent.futures.Executor or a dask.distributed.Client"):
        table(50, model(), executor=given)
