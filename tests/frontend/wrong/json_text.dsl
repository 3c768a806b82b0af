{"cluster": {"instances": ["h20x8"]}}
