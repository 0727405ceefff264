"""Log lines to calls, calls to traces, late scores to outcomes.

In reading order, each line a module or a few that belong together:

    sources, stored            which files a list of paths, folders, patterns and URLs names, and how they are opened
    files, lines, kinds        one file as lines, whatever kind it is: `open_lines`
      line, compressed,        plain, packed, arrays and documents, Parquet
      json_values, parquet_rows
    formats/                   one line as calls and scores; `detect` tells the formats apart, `body` unwraps servers'
                               responses, every other module is one format or what several share
    call, outcome              what every format makes of a line
    meaning, sampling, faults  what a call's numbers mean under the settings, and what is wrong with them
    redact, detectors, ...     what is taken out of texts before anything is written
    log_source                 all of the above for one line
    land, ahead, batch,        lines read ahead, batches committed behind, each exactly once; `workers` reads large
      commit, workers          files side by side
    call_rows, outcome_rows,   what is written
      rejects, exports
    assemble, meant            traces with new calls or new settings are put together again
    stitch, branches, copies,  calls of one trace to training sequences, by exact token-id prefix
      lineage, successor,
      conservation, trace_rows
    look, suggest              what `tracemill check` says of files, without a lake
    receiver, spool, webhooks  signed webhooks into files that are read like any other
"""
