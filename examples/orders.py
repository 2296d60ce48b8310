"""Orders from files to a report: ingest, jobs, workers, Spark, results joined back, a lake.

$ python examples/orders.py                       # 50,000 orders; the path of the report is printed
$ python examples/orders.py --orders 1000 --folder out/

It needs `pip install '.[spark]'` in the clone, and `.[spark,java]` where there is no Java. This is
what `penstock demo` shows as its last act. To read on, in src/penstock/demo/orders:

jobs.py    the functions that workers run
steps.py   each step, as the calls of penstock that it takes
story.py   the steps in their order, with a worker that is killed, and a count of everything
"""

import sys

from penstock.demo.command import demo

if __name__ == "__main__":
    demo(["--only", "pipeline", *sys.argv[1:]])
