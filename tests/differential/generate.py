from pathlib import Path
def make_all(folder): Path(folder).mkdir()
