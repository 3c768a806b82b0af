cluster c
