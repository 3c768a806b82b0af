cluster:
  name: c
  instances:
    - h20x8
