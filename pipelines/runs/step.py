"""A step of a run: its units of work, which of them are done, and the commit of its folders.

The commit, as states of a step, and who may take it from one to the next:

1. absent: no folder and no work folder. The command writes the mark, `_work/<step>-<fingerprint>/fingerprint` (`begin`).
2. begun: the mark is there. Workers write parts into the output folders, under temporary names and then, whole, under names
   that have their content's hash.
3. a unit is reported: `unit-<n>.json` in the work folder names its parts. The first report stands; a worker that comes later
   deletes the parts that it alone has written. Units with a report are skipped, so a run that was killed goes on here.
4. a unit has failed for good: `failed/unit-<n>.txt` says why. The command rejects its records (`reported`), or ends with an
   error; the next `begin` forgets it.
5. all are reported: the command adds the reports up, checks their sums, and sweeps the parts that none of them names.
6. committed: the manifests are written, one a folder, each only if none is there (`finish`); the loser of a race says so.
7. complete: the work folder is gone. Readers trust the manifests alone. Under another fingerprint no folder is touched.
8. damaged: a part, or a file beside, is not as its manifest says. `begin` makes reports of the manifests again, removes
   those, and forgets the units that are damaged: state 3, for the others.

All that decides the content is in the fingerprint: settings, inputs, schemas, and the revision of the step's code. Workers
delete nothing but what they have written themselves; only the command, which holds the run's lock, sweeps. An object store has
no lock: there the sweep waits until the manifests are this command's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

from answermill.files.atomic_files import write_text
from answermill.files.remote import listed
from answermill.files.store import remove_tree, store_of
from answermill.pipelines.errors import IO, OUTPUT_EXISTS, JobError, counted
from answermill.pipelines.revision import code_version
from answermill.pipelines.runs import messages
from answermill.pipelines.runs.counts import StepCounts
from answermill.pipelines.runs.manifests.environment import environment
from answermill.pipelines.runs.manifests.failures import Failure, Failures, HasLimits, Limits
from answermill.pipelines.runs.manifests.manifest import MANIFEST, Manifest, Part, damage_of
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report, Reports, units_done
from answermill.pipelines.runs.manifests.run_folder import SHOWN
from answermill.pipelines.runs.parquet_folder import sweep
from answermill.pipelines.runs.spec import AnyCounts, FolderSpec, StepSpec
from answermill.pipelines.runs.watch.live import WORK as WORK
from answermill.pipelines.runs.watch.progress import print_line
from answermill.schemas.record import Record

MARK = "fingerprint"
"""The file in a step's work folder that says whose it is; a worker that does not see it sees another run folder, or none."""


@dataclass(frozen=True)
class Step(Generic[AnyCounts]):
    """One step of the run in `run`, of which `spec` says what it writes."""

    run: Path
    spec: StepSpec[AnyCounts]
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]

    def __getstate__(self) -> dict[str, Any]:
        """The state that workers are sent: all but settings and inputs, which grow with the input; the fingerprint stands for
        them."""
        return {**self.__dict__, "_fingerprint": self._fingerprint, "settings": {}, "inputs": {}}

    @property
    def name(self) -> str:
        return self.spec.name

    def within(
        self, name: str, folders: Mapping[str, type[Record]], counts: type[StepCounts], inputs: Mapping[str, str]
    ) -> Step[Any]:
        """A step within this one, such as a pass, in its work folder; `folders` are there too."""
        specs = tuple(FolderSpec.of(folder, record, self.spec.maker) for folder, record in folders.items())
        return Step(self.work, self.spec.within(name, specs, counts), {}, inputs)

    @property
    def work(self) -> Path:
        """Where its units report and keep what only the step itself reads; gone when the step is complete. No job with other
        settings or inputs has the same, so workers that another job left behind do not come across this one's."""
        return self.run / WORK / f"{self.name}-{self.fingerprint()[:8]}"

    @property
    def reports(self) -> Reports[AnyCounts]:
        return Reports(self.work, self.spec.counts, self.run)

    def fingerprint(self) -> str:
        """32 hex digits that stand for all that decides the step's output."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        decisive = {
            "step": self.name,
            "revision": self.spec.revision,
            "settings": self.settings,
            "inputs": self.inputs,
            "schemas": {folder.name: folder.record.fingerprint() for folder in self.spec},
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:32]

    def is_complete(self, checksums: bool = False) -> bool:
        """Whether all folders are committed under this fingerprint, and their parts there in the sizes they were written in.

        With `checksums` every byte is compared. Raises JobError (73) if another job's folders are in the way.
        """
        manifests = self._manifests()
        damage = (wrong for name, manifest in manifests.items() for wrong in manifest.damage(self.run / name, checksums))
        if self.spec.absent(manifests):
            return False
        with listed(self.run):
            return next(damage, None) is None

    def begin(self, limits: HasLimits | None = None) -> None:
        """Prepare for the units: keep what the same run left, and sweep the output folders of all that its reports do not name.

        Units that had failed are tried again; `limits` says how often each is tried, and how many may fail.

        Folders that are committed, but damaged, are opened again, and a unit whose parts are not as they were written is not
        done; stderr says which. Raises JobError (73) if another job's folders are in the way.
        """
        manifests = self._manifests()
        mark = self.work / MARK
        if not mark.is_file() or mark.read_text(encoding="utf-8").strip() != self.fingerprint():
            remove_tree(self.work)
            write_text(mark, self.fingerprint() + "\n", replace=False)
        limits = limits or Limits()
        Limits(limits.tries, limits.max_failed_units, limits.cache_gb).write(self.work)
        damage = self._reopen(manifests)
        failed, named = list[int](), {folder.name: set[str]() for folder in self.spec}
        with listed(self.run):
            for report in self.reports.sound(damage):
                if report.counts.failed_units:
                    failed.append(report.unit)
                    continue
                for name, parts in report.parts.items():
                    named[name].update(part.file for part in parts)
        for wrong in list(dict.fromkeys(damage))[:SHOWN]:
            print_line(f"{wrong}; {self.name} makes it again")
        if len(damage) > SHOWN:
            print_line(f"… in all {len(damage):,} files of {self.name} are damaged or missing")
        Failures(self.work).forget()
        self.reports.forget(failed)
        for name, files in named.items() if store_of(self.run).has_locks else ():  # else another command may work as well
            sweep(self.run / name, files)

    def refuse_other_job(self) -> None:
        """Raises JobError (73) if a folder has been committed by a job with other settings or inputs."""
        self._manifests()

    def _manifests(self) -> dict[str, Manifest]:
        """Of the folders that are committed. Raises JobError (73) if one is so under another fingerprint."""
        read = {folder.name: folder.manifest(self.run) for folder in self.spec}
        manifests = {name: manifest for name, manifest in read.items() if manifest is not None}
        if others := {name: it for name, it in manifests.items() if it.fingerprint != self.fingerprint()}:
            raise JobError(messages.conflict(self.run, self.spec, others, self.settings, self.inputs), OUTPUT_EXISTS)
        return manifests

    def _reopen(self, manifests: Mapping[str, Manifest]) -> list[str]:
        """Make reports of the manifests again, as far as these hold the units' counts, and remove them; returns the damage."""
        with listed(self.run):
            damage = [wrong for name, manifest in manifests.items() for wrong in manifest.damage(self.run / name)]
        parts: dict[int, dict[str, list[Part]]] = {}
        for name, manifest in manifests.items():
            for part in manifest.parts:
                parts.setdefault(part.unit, {}).setdefault(name, []).append(part)
        if manifests and not self.spec.absent(manifests):
            for unit, counts in manifests[self.spec.folders[0].name].units.items():
                reported = self.spec.counts.from_json(json.loads(counts))
                self.reports.write(Report(int(unit), parts.get(int(unit), {}), reported))
        for name in manifests:
            (self.run / name / MANIFEST).unlink(missing_ok=True)  # another command may share a store
        return damage

    def reported(self, units: int, reject: Callable[[Failure], Report[AnyCounts]] | None = None) -> Outcome[AnyCounts]:
        """What all the step's units have reported, which are numbered from 0.

        `reject` writes what a failed unit held among the rejects, and reports that; it is called if no more have failed than
        may. Raises JobError (74) if more have, or if the step has no `reject`; if a unit has not reported; or if a part that it
        names is not here in its size: a worker may see another folder under the run's name.
        """
        done = self.reports.numbers()
        failures = [failure for unit, failure in Failures(self.work).read().items() if unit not in done]
        if failures and (reject is None or len(failures) > Limits.read(self.work).max_failed_units):
            raise JobError(messages.too_many_failed(self.work, self.name, failures, (len(done), units), reject is not None), IO)
        if reject is not None:
            done |= {reject(failure).unit for failure in failures}
        silent = [unit for unit in range(units) if unit not in done]
        outcome, lost = Outcome(self.spec.counts()), list[int]()
        with listed(self.run):
            for report in self.reports.each() if not silent else ():
                outcome.add(report)
                if any(damage_of(self.run / name, part) for name, parts in report.parts.items() for part in parts):
                    lost.append(report.unit)
        for numbers, what in ((silent, "did not report"), (lost, "reported what is not there")):
            if numbers:
                self.refuse_other_job()
                raise JobError(f"{messages.named(self.name, numbers)} {what}: do all workers see {self.run}?", IO)
        return outcome

    def finish(self, outcome: Outcome[AnyCounts], beside: Sequence[Part] = ()) -> None:
        """Commit all folders from what the units have reported, and remove the step's work folder.

        Those of other settings go as well: their folders can no longer be committed here, and a worker that an engine still
        runs for them ends with 74 at its next unit.

        `beside`: files of the run folder that were written with them, and are compared with them. Raises RuntimeError if a sum
        of the counts does not hold.
        """
        outcome.counts.check_sums()
        if store_of(self.run).has_locks:  # so nobody else is working here
            self._sweep(outcome)
        tables: dict[str, frozenset[str]] = {}
        for number, folder in enumerate(self.spec):
            parts = outcome.parts(folder.name)
            if folder.optional and not parts:
                continue
            (self.run / folder.name).mkdir(parents=True, exist_ok=True)
            tables[folder.name] = Manifest(
                maker=self.spec.maker,
                record=folder.record.__name__,
                schema=folder.record.fingerprint(),
                fingerprint=self.fingerprint(),
                settings=self.settings,
                inputs=self.inputs,
                version=code_version(),
                rows=sum(part.rows for part in parts),
                counts=outcome.counts.to_json(),
                digests=outcome.digests,
                parts=parts,
                revision=self.spec.revision,
                folder=folder.name,
                units=outcome.units if number == 0 and self.spec.units_stand_alone else {},
                beside=tuple(beside) if number == 0 else (),
                environment=environment(),
            ).write(self.run / folder.name)
        if not store_of(self.run).has_locks:  # only now are the folders this job's, and no other's
            self._sweep(outcome, tables)
        for work in work_folders(self.run, self.name):
            remove_tree(work)
        if store_of(self.run).has_locks and not any((self.run / WORK).iterdir()):
            (self.run / WORK).rmdir()

    def _sweep(self, outcome: Outcome[AnyCounts], tables: Mapping[str, Set[str]] = {}) -> None:
        """Remove from the output folders the parts that no unit has reported, and what is not among a manifest's `tables`."""
        for folder in self.spec:
            parts = {part.file for part in outcome.parts(folder.name)}
            sweep(self.run / folder.name, parts | tables.get(folder.name, frozenset()))


def work_folders(run: Path, step: str) -> list[Path]:
    """The work folders of a step, whatever the settings; the one that was used last comes first."""
    folders = (run / WORK).glob(f"{step}-{'[0-9a-f]' * 8}")
    return sorted(folders, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)


def state_of(run: Path, step: str) -> str:
    """What a step that is not complete does, for people: 'has not run', 'is running or was stopped, with 3 units done'."""
    begun = work_folders(run, step)
    if not begun:
        return "has not run"
    failed = len(Failures(begun[0]).read())
    done = f"is running or was stopped, with {counted(len(units_done(begun[0])), 'unit')} done"
    return f"{done}, {failed} failed" if failed else done
