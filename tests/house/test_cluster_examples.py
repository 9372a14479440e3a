"""The files that start a cluster, as far as they can be checked without one."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "cluster"


def test_the_slurm_job_requests_gpus_for_the_node_that_uses_them_alone() -> None:
    lines = (FOLDER / "slurm.sh").read_text().splitlines()
    requests = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    first, second = requests[: requests.index("hetjob")], requests[requests.index("hetjob") + 1 :]
    assert {"--nodes=1", "--gpus-per-node=8"} <= set(first)
    assert not [one for one in second if "gpu" in one or "gres" in one]
    steps = [line for line in lines if "srun" in line and not line.startswith("#")]
    assert all("--het-group=" in step and "--cpus-per-task=" in step for step in steps)
    assert all("--num-gpus=0" in line for line in lines if "ray start" in line and "--het-group=1" in line)
    assert ["--label" in step for step in steps] == ["--het-group=1" in step for step in steps]
