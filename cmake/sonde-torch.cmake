# sonde::torch for this project: see sonde-config.cmake.
