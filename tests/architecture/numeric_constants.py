"""The numbers with a name that stand beside their code and not in the policy, by reason: ``module: NAMES``.

``function.parameter`` stands for the default of a parameter.

A number that decides how a schedule, a program or a bound comes about is a threshold and belongs to a section of
``hetesynth/policy/``. What may stay is listed here; ``test_numeric_constants.py`` compares the list with the code.
"""

from __future__ import annotations

ALLOWED = {
    "limits against hostile or absurd input": """
        hetesynth/judge/msccl/scan.py: MAX_NAME_BYTES
        hetesynth/deploy/dask_cluster.py: MAX_MESSAGE
        hetesynth/deploy/cache.py: MAX_BYTES
        hetesynth/deploy/cache.py: MAX_DEPTH
        hetesynth/deploy/cache.py: MAX_FILES
        hetesynth/deploy/reports/pages.py: MAX_SLUG
        hetesynth/search/chunking.py: MAX_CAPACITY
        hetesynth/cli/build.py: SILENT
        hetesynth/engine/predictors.py: MAX_SIZES MAX_SIZE
        hetesynth/search/collectives.py: MAX_CHUNKS
        hetesynth/topology/first_topology.py: MAX_SERVERS
        hetesynth/files/regular_files.py: MAX_BYTES
        hetesynth/deploy/folder/cells.py: MAX_SIZES
        hetesynth/deploy/folder/folder.py: MAX_INDEX_BYTES
        hetesynth/deploy/folder/cells.py: MAX_TEXT
        hetesynth/deploy/folder/cells.py: MOST
        hetesynth/deploy/atlas_destination.py: MAX_BYTES
        hetesynth/deploy/folder_index.py: MAX_INDEX_BYTES MAX_INDEX_DEPTH MAX_LISTED
        hetesynth/engine/import_file.py: MAX_FILE_BYTES
        hetesynth/engine/run.py: MAX_LOCAL_RANKS
        hetesynth/deploy/verify_files.py: MAX_FILES HEAD BLOCK
        hetesynth/engine/schedule_replay.py: MAX_CHUNKS_OF_ONE_RANK MAX_TICKS
        hetesynth/execute/job.py: MAX_MEMORY
        hetesynth/files/journal.py: MAX_BYTES
        hetesynth/deploy/manifest/reader.py: MAX_CELLS
        hetesynth/deploy/manifest/document.py: MAX_BYTES MAX_LINE MAX_DOTS
        hetesynth/deploy/manifest/first_manifest.py: MAX_DEPTH MAX_FILES MAX_FOLDERS
        hetesynth/deploy/manifest/keys.py: MAX_TEXT MAX_CLUSTERS MAX_RULES MAX_LOSSES MAX_RANGES MAX_CHUNKS
            MAX_SEED MAX_RANK MAX_EFFORT MAX_FACTOR MAX_STEPS
        hetesynth/deploy/manifest/reader.py: MAX_SIZE
        hetesynth/engine/recipe.py: MOST
        hetesynth/files/schedule_json.py: MAX_BYTES MAX_DEPTH MAX_RANKS MAX_INTEGER
        hetesynth/topology/calibrate/readers.py: MAX_FILE_BYTES MAX_LINE
        hetesynth/topology/calibrate/measurements.py: MAX_POINTS MAX_BYTES MAX_SECONDS
        hetesynth/topology/calibrate/readers.py: MAX_CASES
        hetesynth/topology/calibrate/readers.py: MAX_COLUMNS
        hetesynth/topology/language/elaborate.py: MAX_GPUS MAX_POD_GPUS MAX_INSTANCES MAX_PARTS MAX_POD_PARTS
            MAX_HOST_NAME
        hetesynth/topology/language/expansion.py: MAX_STATEMENTS MAX_NESTED_LOOPS
        hetesynth/topology/language/expressions.py: MAX_LENGTH WORK_OF_A_CHARACTER MAX_NESTING MAX_BITS MAX_INDEX
        hetesynth/topology/language/findings.py: MAX_WORK
        hetesynth/topology/language/syntax_errors.py: _MOST
        hetesynth/topology/language/imports.py: MAX_IMPORTS MAX_IMPORT_DEPTH
        hetesynth/topology/language/losses.py: WORK_OF_A_RATE
        hetesynth/topology/language/names.py: MAX_SPELLING MAX_RANGE WORK_OF_A_NAME
        hetesynth/topology/language/nccl_graph.py: MAX_BYTES MAX_CHANNELS MAX_GPUS MAX_ELEMENTS
        hetesynth/topology/language/networks.py: MAX_SWITCHES MAX_NETWORK_WIRES MAX_AXES
        hetesynth/topology/language/overridden.py: MAX_LOSSES MAX_VALUE
        hetesynth/topology/language/paper.py: MAX_NODES MAX_NAME _WORK_OF_A_PIPE
        hetesynth/topology/language/paper_statements.py: _WORK_OF_A_CONNECTION
        hetesynth/topology/language/parser.py: MAX_RECOVERY_CHARACTERS
        hetesynth/topology/language/paths.py: MAX_WAYS MANY_LINKS MAX_LINKS MAX_PATH_WIRES MAX_STEPS KEPT_STATES
            _MAX_CHAIN _UNREACHED
        hetesynth/topology/language/source.py: MAX_SOURCE_BYTES MAX_DEPTH
        hetesynth/topology/language/units.py: MAX_DIGITS MAX_LANES
        hetesynth/topology/language/wiring.py: MAX_WIRES
        hetesynth/topology/import_topology.py: MAX_MODEL
        hetesynth/topology/import_topology.py: MAX_FILE_BYTES MAX_SERVERS
        hetesynth/topology/importers/edge_list.py: MAX_NODES MAX_LINKS MAX_GROUP_EDGES MAX_NAME MAX_COUNT
            MAX_RATE MAX_LATENCY
        hetesynth/topology/importers/network.py: MAX_SERVERS_OF_A_LEAF
        hetesynth/topology/importers/machine.py: MAX_GPUS_OF_A_MACHINE
        hetesynth/topology/importers/nccl.py: MAX_CPUS MAX_LANES
        hetesynth/topology/importers/nccl.py: MAX_NUMBER_DIGITS MAX_TEXT
        hetesynth/topology/importers/wording.py: MAX_NAME
        hetesynth/topology/importers/reading.py: MAX_XML MAX_XML_ELEMENTS MAX_XML_DEPTH
        hetesynth/topology/importers/amd_smi.py: MOST_LINKS
        hetesynth/topology/importers/amd_smi.py: MAX_DEPTH MAX_DIGITS MAX_GPUS
        hetesynth/topology/importers/astra_sim.py: MAX_DIMENSIONS MAX_FIGURE MAX_NPUS
        hetesynth/topology/importers/astra_sim.py: MAX_TRIALS
        hetesynth/topology/importers/detect.py: BLOCK MAX_OUTPUT MAX_PORTS MAX_SECONDS
        hetesynth/topology/importers/slurm.py: MAX_HOSTS
        hetesynth/topology/importers/hwloc.py: MAX_SPEED
        hetesynth/topology/importers/hwloc.py: MAX_OBJECTS
        hetesynth/topology/importers/ibnetdiscover.py: MAX_DEVICES
        hetesynth/topology/importers/join_network.py: MAX_SERVERS
        hetesynth/topology/importers/network.py: MAX_ATTACHMENTS MAX_SWITCHES
        hetesynth/topology/importers/write_dsl.py: _SHOWN
        hetesynth/topology/importers/wording.py: _SHOWN
        hetesynth/topology/importers/nvidia_smi.py: MAX_GPUS MAX_LINKS
        hetesynth/topology/importers/nvidia_smi.py: MAX_DEVICES
        hetesynth/topology/importers/reading.py: MAX_YAML MAX_YAML_DEPTH MAX_YAML_EVENTS
        hetesynth/topology/importers/slurm.py: MAX_SWITCHES
        hetesynth/topology/importers/reading.py: MAX_LINE MAX_LINES MAX_TEXT
        hetesynth/programs/lifting/buffers.py: MAX_CHUNKS
        hetesynth/topology/lint/definitions.py: MAX_COMPARED MAX_LISTED
        hetesynth/topology/lint/limits.py: _DEEP
        hetesynth/topology/lint/rounding.py: MAX_MULTIPLE
        hetesynth/model/collective.py: MAX_GUESSED_ROOTS
        hetesynth/simulate/graph_builder.py: MAX_DEPENDENCES
        hetesynth/judge/bounds/judge.py: MAX_STEPS
        hetesynth/judge/bounds/prices.py: MAX_PRICE MAX_RANKS
        hetesynth/judge/bounds/query.py: MAX_QUERY MAX_DEPTH
        hetesynth/judge/composition/document.py: MAX_BYTES MAX_DEPTH MAX_RANKS MAX_CELLS MAX_TIME
        hetesynth/judge/msccl/judge.py: MAX_BLOCKS MAX_WORK MAX_GUESSED_WORK
        hetesynth/judge/msccl/lint_readers.py: MAX_CHILDREN
        hetesynth/judge/msccl/reader.py: MAX_FILE_BYTES MAX_ELEMENTS MAX_DEPTH MAX_RANKS MAX_CHUNKS MAX_KNOWN
        hetesynth/judge/msccl/scan.py: MAX_TAG_BYTES MAX_VALUE_BYTES MAX_ATTRIBUTES
        hetesynth/judge/mscclpp/judge.py: MAX_CELLS MAX_MOVED MAX_KNOWLEDGE MAX_GUESSED_WORK
        hetesynth/judge/mscclpp/reader.py: MAX_BYTES MAX_DEPTH MAX_DIGITS MAX_NUMBER MAX_NAME MAX_GPUS
        hetesynth/judge/schedule/arrays.py: MOST_CELLS
        """,
    "facts of runtimes, formats and operating systems": """
        hetesynth/engine/ring_baseline.py: MOST_CHANNELS
        hetesynth/engine/ring_baseline.py: TREES TREE_PARTS MOST_TREE_MOVES
        hetesynth/library/facts.py: NVLS_HOP NVLS_TREE_NET _SLOW _SLOWEST _HOPPER_INSIDE _BLACKWELL_INSIDE _OF_20
            _OF_HOPPER _RATES
        hetesynth/deploy/cache.py: _DIGITS
        hetesynth/deploy/job.py: FORMAT
        hetesynth/deploy/cache.py: _EPOCH
        hetesynth/deploy/folder/environment.py: MSCCL_FILES
        hetesynth/deploy/reports/write.py: FORMAT
        hetesynth/deploy/reports/annotations.py: MAX_OF_A_SEVERITY
        hetesynth/deploy/reports/write.py: MAX_BYTES
        hetesynth/deploy/reports/write.py: _START
        hetesynth/deploy/folder/folder.py: FORMAT
        hetesynth/deploy/manifest/keys.py: FORMAT
        hetesynth/deploy/folder/cells.py: WORD
        hetesynth/deploy/folder/cells.py: ELEMENT
        hetesynth/topology/importers/amd_smi.py: LINK_MB ONE_HOP
        hetesynth/topology/importers/hwloc.py: _NETWORK _INFINIBAND
        hetesynth/topology/importers/hwloc.py: _XGMI_MB _XGMI_UNTOLD _NVLINK_MB _ONE_CARD
        hetesynth/topology/importers/nvidia_smi.py: MOST_LINKS
        hetesynth/search/bounds/throughput.py: INT62
        hetesynth/search/bounds/flow.py: INT32
        hetesynth/topology/convert.py: VERSION
        hetesynth/engine/composition.py: VERSION
        hetesynth/engine/formats.py: HEAD
        hetesynth/errors.py: __init__.exit_code
        hetesynth/execute/mpi.py: CONTROL MAX_TEXT
        hetesynth/execute/players.py: MESSAGE CREDIT
        hetesynth/execute/mpi.py: HEADER
        hetesynth/files/atomic.py: _MODE
        hetesynth/files/folders.py: _HERE _EXCHANGE
        hetesynth/files/schedule_json.py: VERSION
        hetesynth/topology/calibrate/readers.py: DEFAULT_BUFFER
        hetesynth/topology/calibrate/readers.py: _AVERAGE _TYPICAL
        hetesynth/topology/lint/limits.py: _ETHERNET _LINE_RATES
        hetesynth/topology/lint/roles.py: BITS GB
        hetesynth/topology/importers/formats.py: HEAD
        hetesynth/topology/importers/nccl.py: _BELIEVABLE _UNSTATED
        hetesynth/topology/importers/nccl.py: _HOPPER
        hetesynth/topology/importers/pcie.py: _OVER_A_CPU _BETWEEN_CPUS
        hetesynth/topology/importers/rates.py: _FULL_WIDTH
        hetesynth/model/cost.py: COPY_PER_REDUCE
        hetesynth/model/runtime_costs.py: FLAGS_OF_LL
        hetesynth/model/plan.py: MAX_OPERATIONS MAX_CHANNELS MAX_REMOTE_BUFFERS MAX_CHANNELS_OF_OPERATION
            MAX_SLICES MAX_BARRIERS MAX_SEMAPHORES_OF_OPERATION ALIGNMENT MAX_THREADS
            MAX_BUFFER_BYTES OPEN_MAX_BYTES
        hetesynth/model/target.py: STEPS MAX_PROGRAM_NAME
        hetesynth/report/trace.py: LEAST
        hetesynth/search/greedy/direct.py: LIMITED
        hetesynth/judge/composition/document.py: VERSION
        hetesynth/judge/msccl/judge.py: MAX_MERGED_REDUCTIONS
        """,
    "how programs are made and simulated: halved or doubled, they change none by 1 %": """
        hetesynth/programs/cut_chunks.py: TICKS
        hetesynth/programs/msccl/lower.py: LARGE
        hetesynth/programs/mscclpp/lower.py: PEERS_PER_BLOCK
        hetesynth/programs/steady_state/lower.py: FILLING
        hetesynth/programs/steady_state/plan.py: MAX_KNOWLEDGE
        hetesynth/programs/steady_state/traffic.py: TURNS
        hetesynth/simulate/program.py: MAX_LOOPS MIN_LOOPS MAX_TASKS MAX_WORK
        """,
    "defaults of options": """
        hetesynth/model/size_range.py: FIRST LAST
        hetesynth/engine/predictors.py: buffer_sizes.factor
        hetesynth/api.py: sizes_of.factor
        hetesynth/deploy/verify_files.py: FILES_OF_A_PROCESS
        hetesynth/engine/predictors.py: sizes_between.factor
        hetesynth/search/chunking.py: DEFAULT_CHUNK_BYTES
        hetesynth/execute/job.py: DEFAULT_CHUNK_BYTES
        """,
    "tolerances and scales of arithmetic": """
        hetesynth/engine/time_verdict.py: ALIKE
        hetesynth/library/times.py: _KB _MB _NO_LIMIT
        hetesynth/search/bounds/packing.py: EXACT
        hetesynth/search/bounds/ring_rate.py: SLACK _WHOLE
        hetesynth/deploy/cell_check.py: NEAR
        hetesynth/engine/fused_receives.py: EQUAL
        hetesynth/topology/importers/rates.py: GIGA
        hetesynth/topology/importers/wording.py: _PLACES comment.width
        hetesynth/search/bounds/packing.py: SCALE
        hetesynth/topology/calibrate/fit.py: _CONFIDENCE _NORMAL_MAD
        hetesynth/topology/calibrate/update.py: _DIGITS _WRITTEN
        hetesynth/search/packing/exchange.py: LARGEST
        hetesynth/search/portable_math.py: PARTS LARGEST LOG_TERMS
        hetesynth/search/timed/balanced_paths_kernel.py: TERMS
        hetesynth/search/packing/rounding.py: ROUND
        hetesynth/simulate/fluid_kernel.py: TOGETHER SLACK SAME LOWER
        hetesynth/search/greedy/kernel.py: MIN_GAIN
        hetesynth/search/smt/step_choice.py: NEARLY ANY
        hetesynth/search/pods/loads.py: PICOSECONDS
        hetesynth/search/timed/earliest_arrival_kernel.py: ROUNDING
        hetesynth/search/timed/list_scheduling_kernel.py: ROUNDING
        hetesynth/search/trees/packed_trees.py: ROUND
        hetesynth/judge/composition/judge.py: SECOND
        """,
    "what is drawn and how much is shown": """
        hetesynth/deploy/folder/texts.py: DIGITS SHOWN
        hetesynth/deploy/reports/pages.py: MAX_BARS ROW BAR NAMES SIDE VALUE LONGEST_NAME
        hetesynth/deploy/reports/words.py: SHOWN_PERCENT
        hetesynth/deploy/reports/annotations.py: MAX_MESSAGE
        hetesynth/deploy/reports/write.py: FIRST_ROWS UNFOLDED
        hetesynth/deploy/reports/pages.py: SMALLEST LARGEST
        hetesynth/cli/build.py: SHOWN_OF_A_STATUS
        hetesynth/topology/language/layout.py: WIDTH
        hetesynth/topology/lint/rounding.py: _DIGITS
        hetesynth/topology/lint/network.py: _NARROW
        hetesynth/topology/lint/symmetry.py: FEW _POINT _SHOWN
        hetesynth/cli/topo/calibrate.py: MOST_POINTS
        hetesynth/cli/synth_report.py: EXACT
        hetesynth/engine/time_verdict.py: EXACT _THOUSAND
        hetesynth/cli/repair.py: SHOWN
        hetesynth/cli/topo/show.py: SHOWN_NAMES
        hetesynth/cli/topo/ranks.py: SHOWN_NAMES
        hetesynth/cli/terminal.py: LINES_AT_ONCE
        hetesynth/cli/verify.py: SHOWN_ALIKE
        hetesynth/engine/page/report.py: SMALLEST LARGEST USUAL_SIZE MAX_TRANSFERS
        hetesynth/engine/page/report_cegis.py: MAX_ROWS MAX_SNAPSHOTS MAX_RESOURCES MAX_COLUMNS CHUNKS_NAMED
        hetesynth/model/diagnostics.py: MAX_SHOWN_COLUMNS
        hetesynth/execute/memory.py: SHOWN_BYTES
        hetesynth/execute/outcome.py: MAX_SHOWN
        hetesynth/execute/outcome.py: MAX_LINES PER_RANK
        hetesynth/topology/language/assembly.py: _SHOWN_PARTS
        hetesynth/topology/language/findings.py: MAX_FINDINGS
        hetesynth/topology/language/parser.py: MAX_SYNTAX_ERRORS
        hetesynth/topology/language/source.py: MAX_HIDDEN
        hetesynth/topology/language/syntax_errors.py: _MAX_EXPECTED
        hetesynth/report/contents.py: MAX_TASKS
        hetesynth/report/residual_plot.py: WIDTH HEIGHT LEFT RIGHT TOP BOTTOM _LEAST_RANGE
        hetesynth/report/drawing.py: GAP LETTER LINE BAR FAN FAN_STEP MOST_FAN SPACE MAX_ROW SERVERS_A_ROW
        hetesynth/report/server_layout.py: PITCH PAD BETWEEN STAGGER GPU NIC PART BAR END WITH_BUSES SPACE WRAP
            ROW_OF_GPUS ROW_OF_JOINED ARC ARC_STEP
        hetesynth/report/server_layout.py: GRID_PITCH SQUARE LEAST_RADIUS ROUND_PITCH TOGETHER LEAST_GRID
        hetesynth/report/drawing.py: LANE PARALLEL CLEAR SAMPLE MANY_WIRES CELL MARGIN INSET SPREAD
            MOST_SPREAD
        hetesynth/report/size_plot.py: WIDTH HEIGHT LEFT RIGHT TOP BOTTOM
        hetesynth/report/svg.py: HEAD MAX_PANELS schedule_svg.columns
        hetesynth/report/svg.py: TOPOLOGY_HEAD ROW_OF_LEGEND LEGEND_LETTER TITLE_LETTER MOST_TITLE LEAST_WIDTH
        hetesynth/report/cluster_facts.py: EXAMPLES
        hetesynth/deploy/topology_files.py: MAX_DRAWN_WIRES
        hetesynth/deploy/topo_diff.py: MAX_FILES HEAD
        hetesynth/deploy/figures.py: SHOWN
        hetesynth/cli/topo/diff.py: SHOWN_NAMES
        hetesynth/report/trace.py: MAX_EVENTS
        hetesynth/model/words.py: NAMED_CUTS size_text.digits
        hetesynth/judge/composition/judge.py: MOST_VIOLATIONS
        hetesynth/judge/layout.py: SHOWN_RANKS
        hetesynth/judge/msccl/execution.py: MAX_COUNTED_WRONG MAX_SHOWN_WAITS
        hetesynth/judge/msccl/rules.py: MAX_FINDINGS
        hetesynth/judge/msccl/scan.py: MAX_DEFECTS
        hetesynth/judge/mscclpp/execution.py: MAX_SHOWN_WAITS
        hetesynth/judge/mscclpp/reader.py: MAX_REFUSED
        """,
    "numbers that stand for something: indices, kinds, none, no limit": """
        hetesynth/search/packing/column_generation.py: PRIMAL_SIMPLEX
        hetesynth/report/cluster_facts.py: UNLIMITED
        hetesynth/cli/options.py: ALL_ROOTS
        hetesynth/execute/arithmetic.py: POISON
        hetesynth/topology/language/paths.py: _FABRIC_COST _HOST_COST
        hetesynth/search/pods/gates.py: _FABRIC_COST
        hetesynth/programs/lifting/dataflow.py: OWN
        hetesynth/programs/msccl/placement.py: _START
        hetesynth/simulate/graph_builder.py: send.copier
        hetesynth/report/trace.py: _RESOURCES _PROGRAM_RESOURCES _GPUS
        hetesynth/simulate/fluid_kernel.py: DELAY FLOW AFTER ENDED LOST GAINED HEAP TOUCHED MEMBERS WAITING
            FRESH NEWLY_ENDED
        hetesynth/search/greedy/kernel.py: GIVEN_UP MADE MISSING STOPPED STUCK
        hetesynth/search/timed/list_scheduling.py: NEVER
        hetesynth/judge/bounds/prices.py: NONE
        hetesynth/judge/bounds/laws.py: NEVER
        hetesynth/judge/layout.py: BROKEN
        hetesynth/judge/msccl/linter.py: UNBOUNDED
        hetesynth/judge/race_detection.py: MANY
        """,
    "how long to wait for processes, locks and solvers": """
        hetesynth/engine/synth.py: FIRST_ONLY
        hetesynth/deploy/cell_check.py: SHARE
        hetesynth/deploy/workers.py: LIVES TOLD_AFTER
        hetesynth/deploy/dask_cluster.py: FETCH_SECONDS GIVEN LONELY_SECONDS LOOK_SECONDS
        hetesynth/deploy/dask_cluster.py: CLOSE_SECONDS CONNECT_SECONDS POLL_SECONDS
        hetesynth/deploy/dask_cluster.py: ANSWER_SECONDS MAX_NAMED MAX_TEXT REPORT_SECONDS
        hetesynth/execute/launch.py: START_SECONDS START_SECONDS_PER_RANK END_SECONDS
        hetesynth/execute/mpi.py: MAX_POLLED SHORTEST_REST LONGEST_REST LEAVE_SECONDS
        hetesynth/search/machine_code.py: POLL_SECONDS
        hetesynth/files/temporaries.py: WAIT_SECONDS STALE_SECONDS
        hetesynth/search/smt/clauses.py: POLL_SECONDS
        """,
    "judges, which must not depend on the policy of what they judge": """
        hetesynth/judge/bounds/query.py: LONGEST
        """,
}
