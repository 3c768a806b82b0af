# A mesh of 8 x 8 as in the evaluation of TACOS: 50 GiB/s and 0.5 us a link, 1 MiB a rank.

node grid {
  gpus 64
  link gpu[0-6] <-> gpu[1-7] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[8-14] <-> gpu[9-15] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[16-22] <-> gpu[17-23] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[24-30] <-> gpu[25-31] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[32-38] <-> gpu[33-39] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[40-46] <-> gpu[41-47] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[48-54] <-> gpu[49-55] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[56-62] <-> gpu[57-63] { bandwidth 50 GiB/s; latency 0.5 us }
  link gpu[0-55] <-> gpu[8-63] { bandwidth 50 GiB/s; latency 0.5 us }
}

cluster mesh_8x8 {
  chunk 1 MiB
  instance a = grid
}
