import "separate_servers.dsl"
cluster c { instance a = box }
