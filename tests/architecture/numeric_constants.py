"""The numbers with a name that stand beside their code and not in the policy, by reason: ``module: NAMES``.

``function.parameter`` stands for the default of a parameter.

A number that decides how a schedule, a program or a bound comes about is a threshold and belongs to a section of
``hetesynth/policy/``. What may stay is listed here; ``test_numeric_constants.py`` compares the list with the code.
"""

from __future__ import annotations

ALLOWED = {
    "limits against hostile or absurd input": """
        hetesynth/verify/msccl/scan.py: MAX_NAME_BYTES
        hetesynth/building/dask_task.py: MAX_MESSAGE
        hetesynth/building/result.py: MAX_BYTES
        hetesynth/building/result.py: MAX_DEPTH
        hetesynth/building/result.py: MAX_FILES
        hetesynth/building/reports/pages.py: MAX_SLUG
        hetesynth/chunking.py: MAX_CAPACITY
        hetesynth/cli/building.py: SILENT
        hetesynth/cli/options.py: MAX_SIZES MAX_SIZE
        hetesynth/collectives/library.py: MAX_CHUNKS
        hetesynth/commands/first_topology.py: MAX_SERVERS
        hetesynth/regular_files.py: MAX_BYTES
        hetesynth/deployment/records.py: MAX_SIZES
        hetesynth/deployment/folder.py: MAX_INDEX_BYTES
        hetesynth/deployment/records.py: MAX_TEXT
        hetesynth/deployment/records.py: MOST
        hetesynth/commands/atlas_folder.py: MAX_BYTES
        hetesynth/commands/folder_index.py: MAX_INDEX_BYTES MAX_INDEX_DEPTH MAX_LISTED
        hetesynth/commands/import_file.py: MAX_FILE_BYTES
        hetesynth/commands/run.py: MAX_LOCAL_RANKS
        hetesynth/commands/walked_files.py: MAX_FILES HEAD BLOCK
        hetesynth/compile/schedule_sizes.py: MAX_CHUNKS_OF_ONE_RANK MAX_TICKS
        hetesynth/execute/job.py: MAX_MEMORY
        hetesynth/files/journal.py: MAX_BYTES
        hetesynth/manifest/cells.py: MAX_CELLS
        hetesynth/manifest/document.py: MAX_BYTES MAX_LINE MAX_DOTS
        hetesynth/manifest/first_manifest.py: MAX_DEPTH MAX_FILES MAX_FOLDERS
        hetesynth/manifest/keys.py: MAX_TEXT MAX_CLUSTERS MAX_RULES MAX_LOSSES MAX_RANGES MAX_CHUNKS MAX_SEED
            MAX_RANK MAX_EFFORT MAX_FACTOR MAX_STEPS
        hetesynth/manifest/sizes.py: MAX_SIZE
        hetesynth/compile/recipe.py: MOST
        hetesynth/files/schedule_json.py: MAX_BYTES MAX_DEPTH MAX_RANKS MAX_INTEGER
        hetesynth/fitting/lines.py: MAX_FILE_BYTES MAX_LINE
        hetesynth/fitting/measurements.py: MAX_POINTS MAX_BYTES MAX_SECONDS
        hetesynth/fitting/readers/nvbandwidth.py: MAX_CASES
        hetesynth/fitting/readers/table.py: MAX_COLUMNS
        hetesynth/frontend/elaborate.py: MAX_GPUS MAX_POD_GPUS MAX_INSTANCES MAX_PARTS MAX_POD_PARTS
        hetesynth/frontend/expansion.py: MAX_STATEMENTS MAX_NESTED_LOOPS
        hetesynth/frontend/expressions.py: MAX_LENGTH WORK_OF_A_CHARACTER MAX_NESTING MAX_BITS MAX_INDEX
        hetesynth/frontend/findings.py: MAX_WORK
        hetesynth/frontend/hosts.py: MAX_HOST_NAME
        hetesynth/frontend/habits.py: _MOST
        hetesynth/frontend/imports.py: MAX_IMPORTS MAX_IMPORT_DEPTH
        hetesynth/frontend/losses.py: WORK_OF_A_RATE
        hetesynth/frontend/names.py: MAX_SPELLING MAX_RANGE WORK_OF_A_NAME
        hetesynth/frontend/nccl_graph.py: MAX_BYTES MAX_CHANNELS MAX_GPUS MAX_ELEMENTS
        hetesynth/frontend/networks.py: MAX_SWITCHES MAX_NETWORK_WIRES MAX_AXES
        hetesynth/frontend/overridden.py: MAX_LOSSES MAX_VALUE
        hetesynth/frontend/paper.py: MAX_NODES MAX_NAME
        hetesynth/frontend/paper_connections.py: _WORK_OF_A_CONNECTION
        hetesynth/frontend/paper_network.py: _WORK_OF_A_PIPE
        hetesynth/frontend/parser.py: MAX_RECOVERY_CHARACTERS
        hetesynth/frontend/paths.py: MAX_WAYS MANY_LINKS MAX_LINKS MAX_PATH_WIRES MAX_STEPS KEPT_STATES
            _MAX_CHAIN _UNREACHED
        hetesynth/frontend/source.py: MAX_SOURCE_BYTES MAX_DEPTH
        hetesynth/frontend/units.py: MAX_DIGITS MAX_LANES
        hetesynth/frontend/wiring.py: MAX_WIRES
        hetesynth/commands/import_options.py: MAX_MODEL
        hetesynth/commands/import_topology.py: MAX_FILE_BYTES MAX_SERVERS
        hetesynth/importers/edge_document.py: MAX_NODES MAX_LINKS MAX_GROUP_EDGES MAX_NAME MAX_COUNT
            MAX_RATE MAX_LATENCY
        hetesynth/importers/fabric.py: MAX_SERVERS_OF_A_LEAF
        hetesynth/importers/machine.py: MAX_GPUS_OF_A_MACHINE
        hetesynth/importers/nccl.py: MAX_CPUS MAX_LANES
        hetesynth/importers/nccl_devices.py: MAX_NUMBER_DIGITS MAX_TEXT
        hetesynth/importers/wording.py: MAX_NAME
        hetesynth/importers/xml_source.py: MAX_BYTES MAX_ELEMENTS MAX_DEPTH
        hetesynth/importers/amd_smi.py: MOST_LINKS
        hetesynth/importers/amd_tables.py: MAX_DEPTH MAX_DIGITS MAX_GPUS
        hetesynth/importers/astra_sim.py: MAX_DIMENSIONS MAX_FIGURE MAX_NPUS
        hetesynth/importers/astra_sim_export.py: MAX_TRIALS
        hetesynth/importers/detect.py: BLOCK MAX_OUTPUT MAX_PORTS MAX_SECONDS
        hetesynth/importers/hostlist.py: MAX_HOSTS
        hetesynth/importers/hwloc.py: MAX_SPEED
        hetesynth/importers/hwloc_links.py: MAX_OBJECTS
        hetesynth/importers/ibnetdiscover.py: MAX_DEVICES
        hetesynth/importers/join_network.py: MAX_SERVERS
        hetesynth/importers/network.py: MAX_ATTACHMENTS MAX_SWITCHES
        hetesynth/importers/network_text.py: _SHOWN
        hetesynth/importers/wording.py: _SHOWN
        hetesynth/importers/nvidia_smi_lists.py: MAX_GPUS MAX_LINKS
        hetesynth/importers/nvidia_smi_table.py: MAX_DEVICES
        hetesynth/importers/plain_yaml.py: MAX_YAML MAX_YAML_DEPTH MAX_YAML_EVENTS
        hetesynth/importers/slurm_conf.py: MAX_SWITCHES
        hetesynth/importers/tool_text.py: MAX_LINE MAX_LINES MAX_TEXT
        hetesynth/lifting/buffers.py: MAX_CHUNKS
        hetesynth/lint/definitions.py: MAX_COMPARED MAX_LISTED
        hetesynth/lint/limits.py: _DEEP
        hetesynth/lint/rounding.py: MAX_MULTIPLE
        hetesynth/model/collective.py: MAX_GUESSED_ROOTS
        hetesynth/simulate/graph_builder.py: MAX_DEPENDENCES
        hetesynth/verify/bounds/cuts.py: MAX_STEPS
        hetesynth/verify/bounds/growth.py: MAX_STEPS
        hetesynth/verify/bounds/prices.py: MAX_PRICE MAX_RANKS
        hetesynth/verify/bounds/query.py: MAX_QUERY
        hetesynth/verify/bounds/smtlib.py: MAX_DEPTH
        hetesynth/verify/composition/document.py: MAX_BYTES MAX_DEPTH MAX_RANKS MAX_CELLS MAX_TIME
        hetesynth/verify/msccl/algo_element.py: MAX_RANKS MAX_CHUNKS
        hetesynth/verify/msccl/judge.py: MAX_BLOCKS MAX_WORK MAX_GUESSED_WORK
        hetesynth/verify/msccl/lint_limits.py: MAX_CHILDREN
        hetesynth/verify/msccl/reader.py: MAX_FILE_BYTES MAX_ELEMENTS MAX_DEPTH
        hetesynth/verify/msccl/scan.py: MAX_TAG_BYTES MAX_VALUE_BYTES MAX_ATTRIBUTES
        hetesynth/verify/msccl/values.py: MAX_KNOWN
        hetesynth/verify/mscclpp/judge.py: MAX_CELLS MAX_MOVED MAX_KNOWLEDGE MAX_GUESSED_WORK
        hetesynth/verify/mscclpp/reader.py: MAX_BYTES MAX_DEPTH MAX_DIGITS MAX_NUMBER MAX_NAME MAX_GPUS
        hetesynth/verify/schedule/arrays.py: MOST_CELLS
        """,
    "facts of runtimes, formats and operating systems": """
        hetesynth/compile/ring_baseline.py: MOST_CHANNELS
        hetesynth/compile/ring_baseline.py: TREES TREE_PARTS MOST_TREE_MOVES
        hetesynth/library/facts.py: NVLS_HOP NVLS_TREE_NET _SLOW _SLOWEST
        hetesynth/building/cache.py: _DIGITS
        hetesynth/building/job.py: FORMAT
        hetesynth/building/result.py: _EPOCH
        hetesynth/deployment/environment.py: MSCCL_FILES
        hetesynth/building/reports/document.py: FORMAT
        hetesynth/building/reports/github.py: MAX_OF_A_SEVERITY
        hetesynth/building/reports/markdown.py: MAX_BYTES
        hetesynth/building/reports/options.py: _START
        hetesynth/deployment/folder.py: FORMAT
        hetesynth/manifest/keys.py: FORMAT
        hetesynth/deployment/programs.py: WORD
        hetesynth/deployment/selection.py: ELEMENT
        hetesynth/importers/amd_smi.py: LINK_MB ONE_HOP
        hetesynth/importers/hwloc.py: _NETWORK _INFINIBAND
        hetesynth/importers/hwloc_links.py: _XGMI_MB _XGMI_UNTOLD _NVLINK_MB _ONE_CARD
        hetesynth/importers/nvidia_smi.py: MOST_LINKS
        hetesynth/bounds/throughput.py: INT62
        hetesynth/bounds/maxflow.py: INT32
        hetesynth/commands/convert.py: VERSION
        hetesynth/compile/composition_document.py: VERSION
        hetesynth/compile/formats.py: HEAD
        hetesynth/errors.py: __init__.exit_code
        hetesynth/execute/conductor.py: CONTROL MAX_TEXT
        hetesynth/execute/fifo.py: MESSAGE CREDIT
        hetesynth/execute/mpi.py: HEADER
        hetesynth/files/atomic.py: _MODE
        hetesynth/files/folders.py: _HERE _EXCHANGE
        hetesynth/files/schedule_json.py: VERSION
        hetesynth/fitting/readers/nvbandwidth.py: DEFAULT_BUFFER
        hetesynth/fitting/readers/perftest.py: _AVERAGE _TYPICAL
        hetesynth/lint/limits.py: _ETHERNET _LINE_RATES
        hetesynth/lint/roles.py: BITS GB
        hetesynth/importers/formats.py: HEAD
        hetesynth/importers/nccl.py: _BELIEVABLE _UNSTATED
        hetesynth/importers/nccl_remarks.py: _HOPPER
        hetesynth/importers/pcie.py: _OVER_A_CPU _BETWEEN_CPUS
        hetesynth/importers/rates.py: _FULL_WIDTH
        hetesynth/model/cost.py: COPY_PER_REDUCE
        hetesynth/model/runtime_costs.py: FLAGS_OF_LL
        hetesynth/model/plan.py: MAX_OPERATIONS MAX_CHANNELS MAX_REMOTE_BUFFERS MAX_CHANNELS_OF_OPERATION
            MAX_SLICES MAX_BARRIERS MAX_SEMAPHORES_OF_OPERATION ALIGNMENT MAX_THREADS
            MAX_BUFFER_BYTES OPEN_MAX_BYTES
        hetesynth/model/target.py: STEPS MAX_PROGRAM_NAME
        hetesynth/report/trace.py: LEAST
        hetesynth/synthesis/greedy/direct.py: LIMITED
        hetesynth/verify/composition/document.py: VERSION
        hetesynth/verify/msccl/profile.py: MAX_MERGED_REDUCTIONS
        """,
    "defaults of options": """
        hetesynth/model/size_range.py: FIRST LAST
        hetesynth/cli/options.py: buffer_sizes.factor
        hetesynth/commands/verify_files.py: FILES_OF_A_PROCESS
        hetesynth/compile/predictors.py: sizes_between.factor
        hetesynth/chunking.py: DEFAULT_CHUNK_BYTES
        hetesynth/execute/job.py: DEFAULT_CHUNK_BYTES
        """,
    "tolerances and scales of arithmetic": """
        hetesynth/compile/time_verdict.py: ALIKE
        hetesynth/library/times.py: _KB _MB _NO_LIMIT
        hetesynth/bounds/packing.py: EXACT
        hetesynth/bounds/ring_rate.py: SLACK _WHOLE
        hetesynth/building/cell_check.py: NEAR
        hetesynth/compile/fused_receives.py: EQUAL
        hetesynth/importers/rates.py: GIGA
        hetesynth/importers/wording.py: _PLACES comment.width
        hetesynth/bounds/price.py: SCALE
        hetesynth/fitting/fit.py: _CONFIDENCE _NORMAL_MAD
        hetesynth/fitting/link_class.py: _GIGA
        hetesynth/fitting/update.py: _DIGITS _GIGA _PROBE _WRITTEN
        hetesynth/packing/exchange.py: LARGEST
        hetesynth/portable_math.py: PARTS LARGEST LOG_TERMS
        hetesynth/synthesis/timed/balanced_paths_kernel.py: TERMS
        hetesynth/packing/rounding.py: ROUND
        hetesynth/simulate/fluid_kernel.py: TOGETHER SLACK SAME LOWER
        hetesynth/synthesis/greedy/kernel.py: MIN_GAIN
        hetesynth/synthesis/smt/relaxation.py: NEARLY ANY
        hetesynth/synthesis/pods/loads.py: PICOSECONDS
        hetesynth/synthesis/timed/earliest_arrival_kernel.py: ROUNDING
        hetesynth/synthesis/timed/list_scheduling_kernel.py: ROUNDING
        hetesynth/synthesis/trees/step_lp.py: ROUND
        hetesynth/verify/composition/capacity_laws.py: SECOND
        """,
    "what is drawn and how much is shown": """
        hetesynth/deployment/readme.py: DIGITS SHOWN
        hetesynth/building/reports/chart.py: MAX_BARS ROW BAR NAMES SIDE VALUE LONGEST_NAME
        hetesynth/building/reports/figures.py: SHOWN_PERCENT
        hetesynth/building/reports/github.py: MAX_MESSAGE
        hetesynth/building/reports/markdown.py: FIRST_ROWS UNFOLDED
        hetesynth/building/reports/pages.py: SMALLEST LARGEST
        hetesynth/cli/render/build.py: SHOWN_OF_A_STATUS
        hetesynth/frontend/layout.py: WIDTH
        hetesynth/lint/rounding.py: _DIGITS
        hetesynth/lint/network.py: _NARROW
        hetesynth/lint/symmetry.py: FEW _POINT _SHOWN
        hetesynth/cli/render/calibration.py: _MOST_POINTS
        hetesynth/cli/render/synth.py: EXACT
        hetesynth/compile/time_verdict.py: EXACT _THOUSAND
        hetesynth/cli/render/repair.py: SHOWN
        hetesynth/cli/render/topo.py: SHOWN_NAMES
        hetesynth/cli/render/rank_order.py: SHOWN_NAMES
        hetesynth/cli/terminal.py: LINES_AT_ONCE
        hetesynth/cli/verify.py: SHOWN_ALIKE
        hetesynth/commands/report.py: SMALLEST LARGEST USUAL_SIZE MAX_TRANSFERS
        hetesynth/commands/report_cegis.py: MAX_ROWS MAX_SNAPSHOTS MAX_RESOURCES MAX_COLUMNS CHUNKS_NAMED
        hetesynth/diagnostics.py: MAX_SHOWN_COLUMNS
        hetesynth/execute/memory.py: SHOWN_BYTES
        hetesynth/execute/outcome.py: MAX_SHOWN
        hetesynth/execute/stalls.py: MAX_LINES PER_RANK
        hetesynth/frontend/checks.py: _SHOWN_PARTS
        hetesynth/frontend/findings.py: MAX_FINDINGS
        hetesynth/frontend/parser.py: MAX_SYNTAX_ERRORS
        hetesynth/frontend/source.py: MAX_HIDDEN
        hetesynth/frontend/syntax_errors.py: _MAX_EXPECTED
        hetesynth/policy/page.py: LONG_NUMBER
        hetesynth/report/contents.py: MAX_TASKS
        hetesynth/report/residual_plot.py: WIDTH HEIGHT LEFT RIGHT TOP BOTTOM _LEAST_RANGE
        hetesynth/report/drawing.py: GAP LETTER LINE BAR FAN FAN_STEP MOST_FAN SPACE MAX_ROW SERVERS_A_ROW
        hetesynth/report/server_layout.py: PITCH PAD BETWEEN STAGGER GPU NIC PART BAR END WITH_BUSES SPACE WRAP
            ROW_OF_GPUS ROW_OF_JOINED ARC ARC_STEP
        hetesynth/report/gpu_shapes.py: GRID_PITCH SQUARE LEAST_RADIUS ROUND_PITCH TOGETHER LEAST_GRID
        hetesynth/report/wire_curves.py: LANE PARALLEL CLEAR SAMPLE MANY_WIRES CELL MARGIN INSET SPREAD
            MOST_SPREAD
        hetesynth/report/size_plot.py: WIDTH HEIGHT LEFT RIGHT TOP BOTTOM
        hetesynth/report/svg.py: HEAD MAX_PANELS schedule_svg.columns
        hetesynth/report/topology_svg.py: HEAD ROW_OF_LEGEND LEGEND_LETTER TITLE_LETTER MOST_TITLE LEAST_WIDTH
        hetesynth/report/cluster_facts.py: EXAMPLES
        hetesynth/commands/topo_show.py: MAX_DRAWN_WIRES
        hetesynth/commands/topo_diff.py: MAX_FILES HEAD
        hetesynth/commands/standing.py: SHOWN
        hetesynth/cli/render/topo_diff.py: SHOWN_NAMES
        hetesynth/report/trace.py: MAX_EVENTS
        hetesynth/report/words.py: NAMED_CUTS size_text.digits
        hetesynth/verify/composition/judge.py: MOST_VIOLATIONS
        hetesynth/verify/contributions.py: SHOWN_RANKS
        hetesynth/verify/msccl/execution.py: MAX_COUNTED_WRONG MAX_SHOWN_WAITS
        hetesynth/verify/msccl/findings.py: MAX_FINDINGS
        hetesynth/verify/msccl/scan.py: MAX_DEFECTS
        hetesynth/verify/mscclpp/execution.py: MAX_SHOWN_WAITS
        hetesynth/verify/mscclpp/reader.py: MAX_REFUSED
        """,
    "numbers that stand for something: indices, kinds, none, no limit": """
        hetesynth/packing/master.py: PRIMAL_SIMPLEX
        hetesynth/report/cluster_facts.py: UNLIMITED
        hetesynth/cli/options.py: ALL_ROOTS
        hetesynth/execute/arithmetic.py: POISON
        hetesynth/frontend/paths.py: _FABRIC_COST _HOST_COST
        hetesynth/synthesis/pods/gates.py: _FABRIC_COST
        hetesynth/lifting/dataflow.py: OWN
        hetesynth/lowering/msccl/lower.py: BOUNDLESS
        hetesynth/lowering/msccl/placement.py: _START
        hetesynth/report/trace.py: _RESOURCES _PROGRAM_RESOURCES _GPUS
        hetesynth/simulate/fluid_kernel.py: DELAY FLOW AFTER ENDED LOST GAINED HEAP TOUCHED MEMBERS WAITING
            FRESH NEWLY_ENDED
        hetesynth/synthesis/greedy/kernel.py: GIVEN_UP MADE MISSING STOPPED STUCK
        hetesynth/synthesis/timed/list_scheduling.py: NEVER
        hetesynth/verify/bounds/arborescences.py: NONE
        hetesynth/verify/bounds/laws.py: NEVER
        hetesynth/verify/contributions.py: BROKEN
        hetesynth/verify/msccl/linter.py: UNBOUNDED
        hetesynth/verify/race_detection.py: MANY
        """,
    "how long to wait for processes, locks and solvers": """
        hetesynth/building/cell_check.py: SHARE
        hetesynth/building/workers.py: LIVES TOLD_AFTER
        hetesynth/building/dask_cluster.py: FETCH_SECONDS GIVEN LONELY_SECONDS LOOK_SECONDS
        hetesynth/building/dask_connection.py: CLOSE_SECONDS CONNECT_SECONDS POLL_SECONDS
        hetesynth/building/dask_workers.py: ANSWER_SECONDS MAX_NAMED MAX_TEXT REPORT_SECONDS
        hetesynth/execute/launch.py: START_SECONDS START_SECONDS_PER_RANK END_SECONDS
        hetesynth/execute/mpi.py: MAX_POLLED SHORTEST_REST LONGEST_REST LEAVE_SECONDS
        hetesynth/foreign_code.py: POLL_SECONDS
        hetesynth/files/temporaries.py: WAIT_SECONDS STALE_SECONDS
        hetesynth/synthesis/smt/clauses.py: POLL_SECONDS
        hetesynth/synthesis/smt/recheck.py: POLL_SECONDS
        """,
    "judges, which must not depend on the policy of what they judge": """
        hetesynth/verify/bounds/symmetry.py: LONGEST
        """,
}
