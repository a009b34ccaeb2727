"""Bulk-builds tables on Apache Spark: one table for each range of the keys, written by the workers.

    rows, in any order, anywhere
      | repartitionByRange       each partition is a range of keys, chosen by a sample of them
      | sortWithinPartitions     in the order of bytes, which is Spark's order of binary columns too
      | write-table              one process for each partition, fed through its standard input
    part-00000.sst  part-00001.sst  ...      no two of them overlap

Run by `examples/spark/run`; docs/rocksdb.md explains it. Needs nothing of Maypole but the program.
"""

import argparse
import json
import struct
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--maypole", required=True, help="the program, at this path on each worker")
    parser.add_argument("--out", required=True, type=Path, help="directory of the tables")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--filter", default="bloom(10)")
    parser.add_argument("--master", default="local-cluster[2,1,1024]", help="two workers of one core")
    return parser.parse_args()


def rows(spark, count):
    """A stand-in for real data: distinct keys in random order, and values."""
    number = f.col("id").cast("string")
    return spark.range(count).select(
        f.unhex(f.md5(number)).alias("key"),
        f.encode(f.concat(f.lit("value of row "), number), "UTF-8").alias("value"),
    )


def table_writer(maypole, out, filter):
    """What a worker does with a partition. A retry of it replaces the file by an equal one."""

    def write(index, entries):
        path = out / f"part-{index:05}.sst"
        first = next(entries, None)
        if first is None:
            # The sample may leave a range empty, but a table needs at least one entry.
            return
        command = [maypole, "write-table", "--format", "binary", "--json"]
        command += ["--filter", filter, "--out", str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        feed(process.stdin, first)
        for entry in entries:
            feed(process.stdin, entry)
        printed, _ = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{path}: write-table failed; its reason is in the worker's log")
        yield printed.decode()

    return write


def feed(stream, entry):
    for field in (entry.key, entry.value):
        stream.write(struct.pack("<I", len(field)))
        stream.write(field)


def main():
    args = arguments()
    args.out.mkdir(parents=True)
    spark = SparkSession.builder.master(args.master).appName("maypole tables").getOrCreate()
    data = rows(spark, args.rows)
    # A table takes one entry a key. If the data has several rows of a key, one of them is kept.
    ranges = data.dropDuplicates(["key"]).repartitionByRange(args.partitions, "key")
    ordered = ranges.sortWithinPartitions("key")
    write = table_writer(args.maypole, args.out, args.filter)
    tables = [json.loads(line) for line in ordered.rdd.mapPartitionsWithIndex(write).collect()]
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    spark.stop()

    tables.sort(key=lambda table: table["file"])
    for table in tables:
        print(f"{Path(table['file']).name}  {table['entries']:>9} entries  {table['bytes']:>10} bytes")
    entries = sum(table["entries"] for table in tables)
    print(f"{len(tables)} tables by {executors} workers, {entries} entries")
    if entries != args.rows:
        sys.exit(f"{args.rows} rows went in")


main()
