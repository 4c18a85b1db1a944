"""Measurements that are no `rote.measurement.Cell`: one file each, found by name.

Every sibling module without a leading underscore is a study. It has

    PARAMS   a mapping from the name of a parameter to (its type, its default); a default of None means "needed"
    run      run(params, seed) -> list of flat rows of plain numbers and texts; a pure function of its arguments
    seconds  optional: seconds(params) -> what one run takes, about; for the estimate before a long run
    KEYS     optional: names of columns that tell the rows of one run apart (texts always do)

Adding a study is adding one file; entries in experiments/ name it by `kind`.
"""

from rote.lab.studies._cell import Study, StudyCell, get_study, run_study, studies

__all__ = ["Study", "StudyCell", "get_study", "run_study", "studies"]
