# A rack of 72 GB200 in one NVLink domain, without its NICs: 18 trays of four on switch trays, 900 GB/s a GPU.

node tray {
  model "GB200"
  gpus 4
}

cluster gb200_nvl72 {
  instance t[0-17] = tray
  switch nvswitch { ports t*.gpu*; bandwidth 900 GB/s; latency 0.936 us; kind nvlink }
}
