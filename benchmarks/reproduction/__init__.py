"""Rows of docs/reproduction.md: what the papers print, beside what the models give and what is measured here.

Each module has `modelled(programs)`, where `programs` is the folder of the built programs: the rows that are the same
on every machine. `benchmarks/reproduce.py --check` computes them, with numpy alone. A module that measures has
`measured(programs)` as well; what that needs beyond numpy is imported there. A measured row with the paper, figure and
name of a modelled one replaces it. Rows are dictionaries, made by `running.row`, with

    paper           "000" to "004", see benchmarks/reproduce.py
    where           "figure 7"
    what            "file per process"
    unit            "GiB/s"; "" for counts and ratios
    paper_value     number, or text where the paper says it in words
    model_value     number or text; None where there is no model
    measured_value  the same, from this machine; None where nothing is measured
    verdict         in a few words
    command         that gives the value; several are lines
    note            "" or a sentence
    drawing         None, or a plot that comes with the row
"""
