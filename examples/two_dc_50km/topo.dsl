# Two data centres 50 km apart as in SCALE-CCL, section 5: six GPUs each, 50 GB/s links inside with 0.7 us, two border
# routers a centre at 12.5 GB/s with 0.7 us from every GPU, and the routers joined in pairs by 12.5 GB/s at 5 us a kilometre.
# The paper states the rates, not the graph: a ring and two chords inside a centre, GPU i at router i mod 2.

node centre {
  gpus 6
  link gpu0 <-> gpu1 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu1 <-> gpu2 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu2 <-> gpu3 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu3 <-> gpu4 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu4 <-> gpu5 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu5 <-> gpu0 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu0 <-> gpu3 { bandwidth 50 GB/s; latency 0.7 us }
  link gpu1 <-> gpu4 { bandwidth 50 GB/s; latency 0.7 us }
  switch router0 { ports gpu[0,2,4]; bandwidth 12.5 GB/s; latency 0.7 us; kind lan }
  switch router1 { ports gpu[1,3,5]; bandwidth 12.5 GB/s; latency 0.7 us; kind lan }
}

cluster two_dc_50km {
  instance a[0-1] = centre
  link a0.router[0-1] <-> a1.router[0-1] { bandwidth 12.5 GB/s; latency 250 us; kind wan }
}
