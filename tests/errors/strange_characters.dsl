node box { gpus 2 }
cluster c { instance a = box @ $ }
