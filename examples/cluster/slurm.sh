#!/bin/bash
# One training run on a SLURM allocation: `sbatch examples/cluster/slurm.sh examples/eight_gpus.toml NAME`. See
# docs/cluster.md.
# A heterogeneous job: one node with eight GPUs for driver, engines and learner, and nodes without GPUs for sandboxes.
#SBATCH --job-name=turnwise
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --mem=128G
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@900
#SBATCH hetjob
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH --mem=128G
#SBATCH --time=24:00:00
set -euo pipefail

config=${1:?the configuration of the run} name=${2:?the name of the run}
: "${TURNWISE_STORE:?a PostgreSQL URL without its password; the password is in ~/.pgpass on every node}"
# srun does not take the number of CPUs from sbatch.
on_gpus=(srun --het-group=0 --nodes=1 --ntasks=1 --cpus-per-task=64 --overlap)
address=$("${on_gpus[@]}" hostname --ip-address | cut -d' ' -f1)
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=$HOME/.turnwise/ray_token RAY_USAGE_STATS_ENABLED=0
export RAY_ADDRESS=$address:6379

"${on_gpus[@]}" ray start --head --node-ip-address="$address" --port=6379 --include-dashboard=false --block &
for ((waited = 0; ; waited += 2)); do
    ray health-check --address="$RAY_ADDRESS" && break
    ((waited < 300)) || { echo "Ray did not start at $RAY_ADDRESS within 300 s." >&2; exit 1; }
    sleep 2
done
srun --het-group=1 --cpus-per-task=64 --overlap ray start --address="$RAY_ADDRESS" --num-gpus=0 --labels=turnwise=sandboxes --block &

# SIGTERM comes 15 minutes before the time limit. `runs stop` lets the run finish its update and save a checkpoint, while
# a signal to the run would end it within seconds. The next job with the same command resumes the run.
"${on_gpus[@]}" turnwise train "$config" --name "$name" --store "$TURNWISE_STORE" "${@:3}" &
trainer=$!
trap 'turnwise runs stop "$name" --store "$TURNWISE_STORE"' TERM
wait "$trainer" || wait "$trainer"
