import "no/such/file.dsl"
import "."
cluster c { instance a = box }
