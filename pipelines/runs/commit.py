"""The commit of a step's folders: its states, who may take it from one to the next, and when files that
nothing names are removed.

1. absent: no folder and no work folder. The command writes the mark, `_work/<step>-<fingerprint>/fingerprint`
   (`begin`).
2. begun: the mark is there. Workers write parts into the output folders, under temporary names and then,
   whole, under names that have their content's hash.
3. a unit is reported: `unit-<n>.json` in the work folder names its parts. The first report stands; a later
   worker deletes the parts that it alone has written. Units with a report are skipped, so a run that was
   killed goes on here.
4. a unit has failed for good: `failed/unit-<n>.txt` says why. The command rejects its records (`reported`),
   or ends with an error; the next `begin` forgets it.
5. all are reported: the command adds the reports up, checks their sums, and sweeps the parts that none of
   them names.
6. committed: the manifests are written, one a folder, each only if none is there (`finish`); the loser of a
   race reports it.
7. complete: the work folder is gone. Readers trust the manifests alone. Under another fingerprint no folder
   is touched.
8. damaged: a part, or a file beside, is not as its manifest says. `begin` turns the manifests into reports
   again, removes the manifests, and forgets the damaged units; the other units are in state 3.

All that decides the content is in the fingerprint: settings, inputs, schemas, and the revision of the step's
code. Workers delete nothing but their own files; only the command, which holds the run's lock, sweeps. An
object store has no lock, and machines may share a run, so another command may be at work: the sweep then
waits until the manifests are this command's. Of machines that share a run one begins and finishes all steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Generic

from answermill.files.atomic_files import write_text
from answermill.files.remote import listed
from answermill.files.store import remove_if_empty, remove_tree
from answermill.pipelines.errors import IO, OUTPUT_EXISTS, JobError
from answermill.pipelines.revision import code_version
from answermill.pipelines.runs import messages
from answermill.pipelines.runs.lock import confirm_commit, is_alone
from answermill.pipelines.runs.manifests.environment import environment
from answermill.pipelines.runs.manifests.failures import Failure, Failures, HasLimits, Limits
from answermill.pipelines.runs.manifests.manifest import MANIFEST, Manifest, Part, damage_of
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.manifests.reports import Report
from answermill.pipelines.runs.manifests.run_folder import SHOWN
from answermill.pipelines.runs.parquet_folder import sweep
from answermill.pipelines.runs.spec import AnyCounts
from answermill.pipelines.runs.step import MARK, WORK, Step, work_folders
from answermill.pipelines.runs.watch.progress import print_line


@dataclass(frozen=True, slots=True)
class Commit(Generic[AnyCounts]):
    """The commit of a step, as the command sees it that runs the step."""

    step: Step[AnyCounts]

    @property
    def _is_alone(self) -> bool:
        return is_alone(self.step.run)

    def is_complete(self, checksums: bool = False) -> bool:
        """True if all folders are committed under this fingerprint, and their parts have the sizes that were
        written.

        With `checksums` every byte is compared. Raises JobError (73) if another job's folders are in the way.
        """
        run, manifests = self.step.run, self._manifests()
        damage = (
            wrong for name, manifest in manifests.items() for wrong in manifest.damage(run / name, checksums)
        )
        if self.step.spec.absent(manifests):
            return False
        with listed(run):
            return next(damage, None) is None

    def refuse_other_job(self) -> None:
        """Raises JobError (73) if a folder has been committed by a job with other settings or inputs."""
        self._manifests()

    def _manifests(self) -> dict[str, Manifest]:
        """Folder → manifest, of those committed. Raises JobError (73) if one has another fingerprint."""
        step = self.step
        named_manifests = ((folder.name, folder.manifest(step.run)) for folder in step.spec)
        manifests = {name: manifest for name, manifest in named_manifests if manifest is not None}
        if others := {name: it for name, it in manifests.items() if it.fingerprint != step.fingerprint()}:
            raise JobError(
                messages.conflict(step.run, step.spec, others, step.settings, step.inputs), OUTPUT_EXISTS
            )
        return manifests

    def begin(self, limits: HasLimits | None = None) -> None:
        """Prepare for the units: keep what the same run left, and sweep the output folders of all that its
        reports do not name.

        Units that had failed are tried again; `limits` says how often each is tried, and how many may fail.

        Folders that are committed, but damaged, are opened again, and a unit with a damaged part is done
        again; stderr names the damage. Raises JobError (73) if another job's folders are in the way.
        """
        confirm_commit(self.step.run)
        step, manifests = self.step, self._manifests()
        self._mark(limits or Limits())

        # A report for each unit that is left; manifests become reports again.
        damage = self._reopen(manifests)
        failed, named_files = list[int](), {folder.name: set[str]() for folder in step.spec}

        with listed(step.run):
            for report in step.reports.sound(damage):
                if report.counts.failed_units:
                    failed.append(report.unit)
                    continue
                for name, parts in report.parts.items():
                    named_files[name].update(part.file for part in parts)

        for wrong in list(dict.fromkeys(damage))[:SHOWN]:
            print_line(f"{wrong}; {step.name} makes it again")
        if len(damage) > SHOWN:
            print_line(f"… in all {len(damage):,} files of {step.name} are damaged or missing")

        Failures(step.work).forget()
        step.reports.forget(failed)
        if self._is_alone:
            self._sweep(named_files.__getitem__)

    def _mark(self, limits: HasLimits) -> None:
        """Write the step's fingerprint and the limits into its work folder, which is emptied first if it is
        another step's."""
        step = self.step
        mark = step.work / MARK
        if not mark.is_file() or mark.read_text(encoding="utf-8").strip() != step.fingerprint():
            remove_tree(step.work)
            write_text(mark, step.fingerprint() + "\n", replace=False)
        Limits(limits.tries, limits.max_failed_units, limits.cache_gb).write(step.work)

    def _reopen(self, manifests: Mapping[str, Manifest]) -> list[str]:
        """Turn the manifests into reports again, as far as they hold the units' counts, and remove them;
        return the damage."""
        step = self.step
        with listed(step.run):
            damage = [
                wrong for name, manifest in manifests.items() for wrong in manifest.damage(step.run / name)
            ]

        parts: dict[int, dict[str, list[Part]]] = {}
        for name, manifest in manifests.items():
            for part in manifest.parts:
                parts.setdefault(part.unit, {}).setdefault(name, []).append(part)

        if manifests and not step.spec.absent(manifests):
            for unit, counts in manifests[step.spec.folders[0].name].units.items():
                reported = step.spec.counts.from_json(json.loads(counts))
                step.reports.write(Report(int(unit), parts.get(int(unit), {}), reported))

        for name in manifests:
            (step.run / name / MANIFEST).unlink(missing_ok=True)  # another command may share a store
        return damage

    def reported(
        self, units: int, reject: Callable[[Failure], Report[AnyCounts]] | None = None
    ) -> Outcome[AnyCounts]:
        """Sum of the reports of all the step's units, which are numbered from 0.

        `reject` writes the records of a failed unit among the rejects, and reports them; it is called if no
        more units have failed than may. Raises JobError (74) if more have, or if the step has no `reject`; if
        a unit has not reported; or if a part that it names is not here in its size: a worker may see another
        folder under the run's name.
        """
        step = self.step
        done = step.reports.numbers()
        failures = [failure for unit, failure in Failures(step.work).read().items() if unit not in done]

        if failures and (reject is None or len(failures) > Limits.read(step.work).max_failed_units):
            raise JobError(
                messages.too_many_failed(
                    step.work, step.name, failures, (len(done), units), reject is not None
                ),
                IO,
            )

        if reject is not None:
            done |= {reject(failure).unit for failure in failures}

        silent = [unit for unit in range(units) if unit not in done]
        outcome, missing = Outcome(step.spec.counts()), list[int]()

        with listed(step.run):
            for report in step.reports.each() if not silent else ():
                outcome.add(report)
                if any(
                    damage_of(step.run / name, part) for name, parts in report.parts.items() for part in parts
                ):
                    missing.append(report.unit)

        for numbers, problem in ((silent, "did not report"), (missing, "reported what is not there")):
            if numbers:
                self.refuse_other_job()
                raise JobError(
                    f"{messages.named(step.name, numbers)} {problem}: do all workers see {step.run}?", IO
                )

        return outcome

    def finish(self, outcome: Outcome[AnyCounts], beside: Sequence[Part] = ()) -> None:
        """Commit all folders from the reports of the units, and remove the step's work folder.

        Its work folders of other settings are removed too: their output can no longer be committed here, and
        a worker that an engine still runs for them ends with 74 at its next unit.

        `beside`: files of the run folder that were written with them, and are compared with them. Raises
        RuntimeError if a sum of the counts does not hold.
        """
        run = self.step.run
        outcome.counts.check_sums()
        confirm_commit(run)
        tables: dict[str, frozenset[str]] = {}  # files beside each manifest

        def named(folder: str) -> Set[str]:
            return {part.file for part in outcome.parts(folder)} | tables.get(folder, frozenset())

        if self._is_alone:
            self._sweep(named)
        tables |= self._write_manifests(outcome, beside)
        if not self._is_alone:  # only now are the folders this job's, and no other's
            self._sweep(named)
        for work in work_folders(run, self.step.name):
            remove_tree(work)
        remove_if_empty(run / WORK)

    def _write_manifests(
        self, outcome: Outcome[AnyCounts], beside: Sequence[Part]
    ) -> dict[str, frozenset[str]]:
        """Write each folder's manifest, the first with the units' counts and the files `beside`; return
        folder → names of its manifest's tables."""
        step, tables = self.step, dict[str, frozenset[str]]()
        for number, folder in enumerate(step.spec):
            parts = outcome.parts(folder.name)
            if folder.optional and not parts:
                continue

            (step.run / folder.name).mkdir(parents=True, exist_ok=True)
            tables[folder.name] = Manifest(
                maker=step.spec.maker,
                record=folder.record.__name__,
                schema=folder.record.fingerprint(),
                fingerprint=step.fingerprint(),
                settings=step.settings,
                inputs=step.inputs,
                version=code_version(),
                rows=sum(part.rows for part in parts),
                counts=outcome.counts.to_json(),
                digests=outcome.digests,
                parts=parts,
                revision=step.spec.revision,
                folder=folder.name,
                units=outcome.units if number == 0 and step.spec.units_stand_alone else {},
                beside=tuple(beside) if number == 0 else (),
                environment=environment(),
            ).write(step.run / folder.name)

        return tables

    def _sweep(self, named: Callable[[str], Set[str]]) -> None:
        """Remove from each output folder the files that `named` does not list for it."""
        for folder in self.step.spec:
            sweep(self.step.run / folder.name, named(folder.name))
