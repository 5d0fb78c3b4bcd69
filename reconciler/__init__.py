"""Make a Kubernetes cluster match the jobs that a git commit declares, and tell git what became of them.

One pass is one function, `reconciler.engine.reconcile.reconcile`. Its stages, and where each is decided:

1.  read      `source.revision` reads the blobs of one commit, `source.record` the status branch.
2.  parse     `core.task` and `core.priority` turn each file into a task or a class, or into all its problems.
3.  compose   `core.compose` merges the layers of pod_config: site, context, task, then the rendered pod.
4.  render    `core.render` makes the Kubernetes Job, `core.encoding` its form and the reading of its counts,
              `core.pod.delivery` what its pods need besides: files, long scripts, secrets.
5.  observe   `core.observe` reads the state of each live Job and its pods.
6.  decide    `core.decide` compares wanted, live and recorded, and names the actions. Nothing is written before.
7.  apply     `engine.apply` carries them out: PriorityClasses first, then jobs, deletions last.
8.  document  `core.document` writes down each job's state as a file.
9.  publish   `source.publish` commits those files to the status branch and pushes them.

`core` is pure: no clock, no input or output. `source` knows git, `cluster` knows Kubernetes (and its stand-in on this
machine), `engine` strings them together, `cli` speaks with people. Imports point down that list, and a linter says so.
"""

__version__ = "0.1.0"
