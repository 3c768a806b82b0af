importh20

cluster c {
  instancea=h20x8
  withouta.gpu0
}
