"""DockerSpawner's own tests, run against our spawner: what is a DockerSpawner must act as one."""
