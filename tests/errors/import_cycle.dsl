import "import_cycle.dsl"
cluster c { instance a = box }
