node n { gpus 2; nic nic0; attach gpu* -> nic0 }

cluster c {
  instance a = n
}
