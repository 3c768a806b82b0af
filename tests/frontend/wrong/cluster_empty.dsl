import h20

cluster c {
}
