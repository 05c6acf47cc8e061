"""A pipeline in YAML: read, checked and described in words, without starting Spark.

Examples
--------
>>> from topwatch.spark.pipeline.config import building
>>> from topwatch.spark.pipeline.config.reading import parse
>>> pipeline = parse('''
... source: {files: data/*.parquet}
... id: flow
... window: {last: 100000}
... queries:
...   - {name: hot, top: 10, score: {linear: {bytes: 0.7, packets: 0.3}}}
... sink: console
... ''')
>>> pipeline.source.files.format
'parquet'
>>> print(building.monitor(pipeline).explain())
1 query over the last 100,000 rows
hot: reserve – ...
"""

from __future__ import annotations

from topwatch.spark.pipeline.config.model import Pipeline
from topwatch.spark.pipeline.config.reading import read

__all__ = ["Pipeline", "read"]
