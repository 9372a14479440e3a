"""A program: decode a Parquet file to a stream of Arrow batches of one row, under a limit on its memory.

The sizes in a Parquet file may lie, and a few bytes may stand for billions of values: dictionaries, run lengths and
compression. Therefore another process than the import decodes the file, and the kernel refuses memory above the limit.

Usage: ``python decode_parquet.py DESCRIPTOR BYTES``. The stream is written to stdout. The last line of stderr names
the error of a failure.
"""

import os
import resource
import sys
from pathlib import Path


def main(descriptor: int, memory: int) -> None:
    """Write the rows of the file that is open at ``descriptor`` to stdout.

    Args:
        memory: bytes that the decoding may take, above those of the program itself.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_memory_pool(pa.system_memory_pool())
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with (
        os.fdopen(descriptor, "rb") as content,
        pq.ParquetFile(content) as file,
        pa.ipc.new_stream(sys.stdout.buffer, file.schema_arrow) as stream,
    ):
        for batch in file.iter_batches(batch_size=1, use_threads=False):
            stream.write_batch(batch)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except MemoryError:  # ``pyarrow.ArrowMemoryError`` is one
        sys.exit("a row needs too much memory")
    except Exception as error:  # noqa: BLE001 - the parent reports it, and has no use for a traceback
        sys.exit(" ".join(f"{type(error).__name__}: {error}".split()))
